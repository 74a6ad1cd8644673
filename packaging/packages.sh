#!/bin/sh
# Packages of one static program: packages.sh PROGRAM ARCHITECTURE VERSION FOLDER The output depends
# on the input alone: the same program gives the same archive, image and Debian package.
set -eu
program=$1 architecture=$2 version=$3 out=$4
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/.." && pwd)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$repository" log -1 --format=%ct)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
# mktemp's folders are for their owner alone; what is installed is for everybody.
umask 022

# Man pages and completions are written by the program itself, natively or by the one of this
# machine.
helper=$program
if [ -x "${HELPER:-}" ]; then helper=$HELPER; fi
"$helper" help-files "$work/help"
gzip -9n "$work"/help/man1/*.1

# The tree that both package formats install.
tree=$work/tree
install -Dm755 "$program" "$tree/usr/bin/schedcast"
install -Dm755 "$here/kubectl/kubectl-schedcast" "$tree/usr/bin/kubectl-schedcast"
mkdir -p "$tree/usr/share/man"
cp -r "$work/help/man1" "$tree/usr/share/man/man1"
install -Dm644 "$work/help/completions/schedcast.bash" "$tree/usr/share/bash-completion/completions/schedcast"
install -Dm644 "$work/help/completions/_schedcast" "$tree/usr/share/zsh/vendor-completions/_schedcast"
install -Dm644 "$work/help/completions/schedcast.fish" "$tree/usr/share/fish/vendor_completions.d/schedcast.fish"
install -Dm644 "$repository/COPYING" "$tree/usr/share/doc/schedcast/copyright"
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

# One archive: for hands, krew and Homebrew.
bare=$work/schedcast-$version-$architecture-linux
mkdir "$bare"
cp "$program" "$bare/schedcast"
cp "$here/kubectl/kubectl-schedcast" "$repository/COPYING" "$bare"
cp -r "$work/help/man1" "$work/help/completions" "$bare"
archive=$out/schedcast-$version-$architecture-linux.tar.gz
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
	-cf - "$(basename "$bare")" | gzip -9n >"$archive"

python3 "$here/oci.py" "$program" "$out/schedcast-$version-$architecture.oci.tar" \
	--architecture "$architecture" --version "$version" --seconds "$SOURCE_DATE_EPOCH"

case $architecture in x86_64) debian=amd64 ;; aarch64) debian=arm64 ;; esac
if command -v dpkg-deb >/dev/null; then
	deb=$work/deb
	cp -a "$tree" "$deb"
	mkdir "$deb/DEBIAN"
	size=$(du -sk "$tree" | cut -f1)
	sed "s/@VERSION@/$version/; s/@ARCHITECTURE@/$debian/; s/@SIZE@/$size/" "$here/debian-control" >"$deb/DEBIAN/control"
	dpkg-deb --root-owner-group -Zgzip --build "$deb" "$out/schedcast_${version}_$debian.deb" >/dev/null
else
	echo "no .deb: dpkg-deb is not installed" >&2
fi
if command -v rpmbuild >/dev/null; then
	rpmbuild --quiet -bb --target "$architecture" --define "_topdir $work/rpm" --define "tree $tree" \
		--define "release_version $version" --define "_rpmdir $out" --define "_build_id_links none" \
		--define "_rpmfilename schedcast-$version-1.$architecture.rpm" "$here/schedcast.spec"
else
	echo "no .rpm: rpmbuild is not installed" >&2
fi
# The manifest of krew names the archive of each architecture that is there by its checksum.
sed "s/@VERSION@/$version/g" "$here/kubectl/schedcast.yaml" >"$work/krew"
for one in x86_64 aarch64; do
	archive="$out/schedcast-$version-$one-linux.tar.gz"
	[ -e "$archive" ] || continue
	sum=$(sha256sum "$archive" | cut -d' ' -f1)
	sed -i "s/@SHA256_$one@/$sum/" "$work/krew"
done
cp "$work/krew" "$out/schedcast.yaml"
