"""An OCI image of one static program, written without a container daemon.

An image is a tar file with a layout of blobs that are named by their SHA-256: a layer (a tar of the
files), a configuration (which program to start), a manifest (layer and configuration) and an index
that names the manifest. The same input gives the same bytes.
"""

import argparse
import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def tar_of(files: dict[str, tuple[bytes, int]], seconds: int) -> bytes:
    """A tar of these files: path to content and mode."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, (content, mode) in sorted(files.items()):
            info = tarfile.TarInfo(path)
            info.size, info.mode, info.mtime = len(content), mode, seconds
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def image(program: bytes, architecture: str, version: str, seconds: int) -> bytes:
    """The image as a tar in the OCI layout, which docker, podman, skopeo and crane load."""
    layer = tar_of({"schedcast": (program, 0o755)}, seconds)
    packed = gzip.compress(layer, mtime=0)
    blobs: dict[str, bytes] = {}

    def add(content: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}

    def plain(value: object) -> bytes:
        return json.dumps(value, sort_keys=True).encode()

    config = {
        "architecture": ARCHITECTURES[architecture],
        "os": "linux",
        "config": {
            "Entrypoint": ["/schedcast"],
            "Labels": {
                "org.opencontainers.image.title": "schedcast",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "GPL-2.0-only",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": add(plain(config), "config.v1+json"),
        "layers": [add(packed, "layer.v1.tar+gzip")],
    }
    entry = add(plain(manifest), "manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": f"schedcast:{version}"}
    entry["platform"] = {"architecture": ARCHITECTURES[architecture], "os": "linux"}
    files = {f"blobs/sha256/{digest}": (content, 0o644) for digest, content in blobs.items()}
    files["oci-layout"] = (plain({"imageLayoutVersion": "1.0.0"}), 0o644)
    files["index.json"] = (plain({"schemaVersion": 2, "manifests": [entry]}), 0o644)
    return tar_of(files, seconds)


def main() -> None:
    """Writes one image."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--architecture", choices=sorted(ARCHITECTURES), required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--seconds", type=int, default=0, help="time of all files since 1970")
    given = parser.parse_args()
    content = given.program.read_bytes()
    given.out.write_bytes(image(content, given.architecture, given.version, given.seconds))


if __name__ == "__main__":
    main()
