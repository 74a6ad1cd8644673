# Homebrew on Linux: brew install --build-from-source ./schedcast.rb
class Schedcast < Formula
  desc "Forecasts what the Linux CPU scheduler will do"
  homepage "https://github.com/schedcast/schedcast"
  license "GPL-2.0-only"
  head "https://github.com/schedcast/schedcast.git", branch: "main"

  depends_on "rust" => :build
  depends_on :linux

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/cli")
    system bin/"schedcast", "help-files", buildpath/"help"
    man1.install Dir["help/man1/*.1"]
    bash_completion.install "help/completions/schedcast.bash" => "schedcast"
    zsh_completion.install "help/completions/_schedcast"
    fish_completion.install "help/completions/schedcast.fish"
  end

  test do
    assert_match "what-if", shell_output("#{bin}/schedcast self check")
  end
end
