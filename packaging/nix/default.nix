# nix-build packaging/nix
{ pkgs ? import <nixpkgs> { } }:

pkgs.rustPlatform.buildRustPackage {
  pname = "schedcast";
  version = "0.1.0";
  src = pkgs.lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;
  buildAndTestSubdir = "crates/cli";
  # Tests look for programs and kernels of the host.
  doCheck = false;
  nativeBuildInputs = [ pkgs.installShellFiles ];
  postInstall = ''
    $out/bin/schedcast help-files help
    installManPage help/man1/*.1
    installShellCompletion --cmd schedcast --bash help/completions/schedcast.bash \
      --zsh help/completions/_schedcast --fish help/completions/schedcast.fish
  '';
  meta = {
    description = "Forecasts what the Linux CPU scheduler will do";
    license = pkgs.lib.licenses.gpl2Only;
    platforms = pkgs.lib.platforms.linux;
  };
}
