# Trains, evaluates and explores visual-semantic embedding networks: the programs of the release.
class Vsetrain < Formula
  desc "Train, evaluate and explore visual-semantic embedding networks"
  homepage "[[.URL]]"
  version "[[.Version]]"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "[[.File "darwin-arm64.tar.gz"]]"
      sha256 "[[.Sum "darwin-arm64.tar.gz"]]"
    end
    on_intel do
      url "[[.File "darwin-amd64.tar.gz"]]"
      sha256 "[[.Sum "darwin-amd64.tar.gz"]]"
    end
  end

  on_linux do
    on_arm do
      url "[[.File "linux-arm64.tar.gz"]]"
      sha256 "[[.Sum "linux-arm64.tar.gz"]]"
    end
    on_intel do
      url "[[.File "linux-amd64.tar.gz"]]"
      sha256 "[[.Sum "linux-amd64.tar.gz"]]"
    end
  end

  def install
    bin.install "vsetrain"
    man1.install Dir["man/man1/*.1"]
    generate_completions_from_executable(bin/"vsetrain", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/vsetrain version")
  end
end
