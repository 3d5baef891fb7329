//go:build amd64 || arm64

package tinyinit

import (
	"bytes"
	"debug/elf"
	"runtime"
	"testing"
)

// TestInitELF parses the program with debug/elf.
func TestInitELF(t *testing.T) {
	raw := initELF()
	if len(raw) >= page {
		t.Errorf("init has %d bytes, want less than a page", len(raw))
	}
	f, err := elf.NewFile(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	if f.Machine != want || f.Type != elf.ET_EXEC || len(f.Progs) != 2 {
		t.Errorf("machine %v, type %v, %d segments", f.Machine, f.Type, len(f.Progs))
	}
	for _, p := range f.Progs {
		if p.Flags&elf.PF_W != 0 && p.Flags&elf.PF_X != 0 {
			t.Errorf("segment %v is writable and executable", p.Type)
		}
	}
	if load := f.Progs[0]; f.Entry < load.Vaddr || f.Entry >= load.Vaddr+load.Filesz {
		t.Errorf("entry %#x is outside of the segment at %#x of %d bytes", f.Entry, load.Vaddr, load.Filesz)
	}
}

func TestReason(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"open granted path r:/x: no": "open granted path r:/x: no",
		"\x00e\x01":                  "enter the namespaces of the task: operation not permitted",
		"\x00x\x02":                  "execute the sandbox stage: no such file or directory",
	} {
		if got := Reason(in); got != want {
			t.Errorf("Reason(%q) = %q, want %q", in, got, want)
		}
	}
}
