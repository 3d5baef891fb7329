package release

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// machines are the machines of a release in the header of a program.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// The beginnings of the programs in nomad: an executable of 64 bits for Linux, and what gzip -9 -n writes.
var (
	executable = []byte("\x7fELF\x02\x01\x01")
	compressed = []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03")
)

// programsIn returns the complete programs in another one: the companion, and the sidecars, which are
// compressed. Other bytes with the same beginning are not programs.
func programsIn(text []byte) []*elf.File {
	var found []*elf.File
	add := func(r io.ReaderAt) {
		if f, err := elf.NewFile(r); err == nil && f.Type == elf.ET_EXEC {
			found = append(found, f)
		}
	}
	for at := 1; ; at++ {
		next := bytes.Index(text[at:], executable)
		if next < 0 {
			break
		}
		at += next
		add(bytes.NewReader(text[at:]))
	}
	for at := 0; ; at++ {
		next := bytes.Index(text[at:], compressed)
		if next < 0 {
			return found
		}
		at += next
		if r, err := gzip.NewReader(bytes.NewReader(text[at:])); err == nil {
			r.Multistream(false)
			if program, err := io.ReadAll(r); err == nil {
				add(bytes.NewReader(program))
			}
		}
	}
}

// static reports why a program is not a static one for a machine.
func static(f *elf.File, machine elf.Machine) error {
	if f.Machine != machine {
		return fmt.Errorf("it is for %v, want %v", f.Machine, machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			return errors.New("it is not static")
		}
	}
	return nil
}

// contains checks that nomad and the companion, fetch and render in it are static programs for the machine.
func contains(t *testing.T, program string, machine elf.Machine) {
	t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	nomad, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	all := programsIn(text)
	if len(all) != 3 {
		t.Errorf("%s contains %d programs, want companion, fetch and render", filepath.Base(program), len(all))
	}
	for i, f := range append([]*elf.File{nomad}, all...) {
		if err := static(f, machine); err != nil {
			t.Errorf("%s, program %d: %v", filepath.Base(program), i, err)
		}
	}
}

// TestEmbedded checks the program that make has built.
func TestEmbedded(t *testing.T) {
	program := "../../bin/nomad"
	if _, err := os.Stat(program); err != nil {
		t.Skip("run make build")
	}
	contains(t, program, machines[runtime.GOARCH])
}

// TestOtherArchitecture builds a release for the architecture that this machine does not have, and runs
// its program if the machine has QEMU.
func TestOtherArchitecture(t *testing.T) {
	root, out := tree(t), t.TempDir()
	arch, emulator := "arm64", "qemu-aarch64-static"
	if runtime.GOARCH == arch {
		arch, emulator = "amd64", "qemu-x86_64-static"
	}
	build(t, root, out, arch)
	program := filepath.Join(out, "nomad_linux_"+arch)
	contains(t, program, machines[arch])
	materials(t, program)
	debs, err := filepath.Glob(filepath.Join(out, "*_"+arch+".deb"))
	if err != nil || len(debs) != 1 {
		t.Fatalf("packages %q: %v", debs, err)
	}
	field, err := exec.Command("dpkg-deb", "--field", debs[0], "Architecture").Output()
	if got := strings.TrimSpace(string(field)); err != nil || got != arch {
		t.Errorf("the package is for %s, want %s: %v", got, arch, err)
	}
	if _, err := exec.LookPath(emulator); err != nil {
		t.Log("the program is not run: install qemu-user-static")
		return
	}
	if got, err := exec.Command(emulator, program, "version").CombinedOutput(); err != nil || !bytes.HasPrefix(got, []byte("Nomad v")) {
		t.Errorf("nomad version: %v\n%s", err, got)
	}
}
