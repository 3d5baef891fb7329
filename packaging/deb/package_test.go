package deb_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/command"
)

// need skips a test unless NEEDS_DEB is set: it takes minutes. Then it fails without one of the programs.
func need(t *testing.T, programs ...string) {
	t.Helper()
	if os.Getenv("NEEDS_DEB") == "" {
		t.Skip("run make test-deb")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing(t, "install "+p)
		}
	}
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("NEEDS_DEB") != "" {
		t.Fatal(what)
	}
	t.Skipf("%s, or set NEEDS_DEB=1 to make its absence an error", what)
}

// pages writes the manual pages once.
func pages(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := command.WriteManPages(dir, time.Unix(1764000000, 0).UTC()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// build builds a package and returns its name.
func build(t *testing.T, program, man, version string) string {
	t.Helper()
	out := t.TempDir()
	cmd := exec.Command("./build", program, architecture(t), out)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1764000000", "COMPRESSION=gzip", "MAN="+man, "VERSION="+version)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	found, err := filepath.Glob(filepath.Join(out, "*.deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("packages %q: %v", found, err)
	}
	return found[0]
}

func architecture(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("dpkg", "--print-architecture").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// nomad returns the program that make has built.
func nomad(t *testing.T) string {
	t.Helper()
	bin, err := filepath.Abs("../../bin/nomad")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		missing(t, "run make build")
	}
	return bin
}

// TestPackage checks that two builds are equal, what the package contains, and that lintian has no complaint.
func TestPackage(t *testing.T) {
	need(t, "dpkg-deb", "lintian")
	man := pages(t)
	name := build(t, nomad(t), man, "2.0.6+1")
	first, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(build(t, nomad(t), man, "2.0.6+1")); err != nil || !bytes.Equal(first, second) {
		t.Errorf("two builds differ: %v", err)
	}
	out, err := exec.Command("dpkg-deb", "--contents", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`-rwxr-xr-x root/root .* \./usr/bin/nomad`,
		`-rw-r--r-- root/root .* \./usr/lib/systemd/system/open-nomad-server\.service`,
		`-rw-r--r-- root/root .* \./usr/lib/systemd/system/open-nomad-client\.service`, `-rw-r--r-- .* \./usr/lib/sysusers\.d/open-nomad\.conf`,
		`-rw-r--r-- .* \./etc/nomad\.d/server\.hcl\.example`, `-rw-r--r-- .* \./usr/share/bash-completion/completions/nomad`,
		`-rw-r--r-- .* \./usr/share/zsh/vendor-completions/_nomad`, `-rw-r--r-- .* \./usr/share/fish/vendor_completions\.d/nomad\.fish`,
		`-rw-r--r-- .* \./usr/share/man/man1/nomad\.1\.gz`, `-rw-r--r-- .* \./usr/share/man/man1/nomad-job-run\.1\.gz`,
		`-rw-r--r-- .* \./usr/share/doc/open-nomad/copyright`, `-rw-r--r-- .* \./usr/share/doc/open-nomad/THIRD-PARTY-LICENSES\.gz`} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("the package has no %s", want)
		}
	}
	lintian := exec.Command("lintian", "--fail-on", "error,warning", name)
	if out, err := lintian.CombinedOutput(); err != nil {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}

// TestExamples checks the configuration of the package with the program of the package.
func TestExamples(t *testing.T) {
	for _, name := range []string{"server", "client"} {
		text, err := os.ReadFile("../etc/" + name + ".hcl.example")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name+".hcl")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(nomad(t), "config", "validate", file).CombinedOutput(); err != nil {
			t.Errorf("%s.hcl.example: %v\n%s", name, err, out)
		}
	}
}

// TestUnits checks the level that install.md states for the unit of the server.
func TestUnits(t *testing.T) {
	need(t, "systemd-analyze")
	out, err := exec.Command("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=15",
		"../systemd/open-nomad-server.service").CombinedOutput()
	if err != nil {
		t.Errorf("the server's unit is above 1.5: %v\n%s", err, out)
	}
}
