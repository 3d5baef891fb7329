package seccomp

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// both are a profile's filter as a list, and as it is used.
func both(t *testing.T, p *Profile, g Gaps) (list []bpf.Instruction, listed, searched *judge) {
	t.Helper()
	info, err := native()
	if err != nil {
		t.Fatal(err)
	}
	list, err = p.list(g, info)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := bpf.Assemble(append(guard(info), list...))
	if err != nil {
		t.Fatal(err)
	}
	if listed, err = newJudge(encode(raw)); err != nil {
		t.Fatal(err)
	}
	return list, listed, judgeOf(t, p, g)
}

// TestTreeSaysWhatTheListSays for every number, and arguments that the list asks about.
func TestTreeSaysWhatTheListSays(t *testing.T) {
	standard, _ := standardProfile(t)
	profiles := map[string]*Profile{"standard": standard, "narrow": parse(t, narrow)}
	random := rand.New(rand.NewPCG(1, 2))
	for name, p := range profiles {
		for _, g := range []Gaps{{}, {IPC: true}, {Processes: true}, {Ports: true}, {IPC: true, Processes: true, Ports: true}} {
			list, listed, searched := both(t, p, g)
			values := asked(list)
			for _, nr := range numbers(list) {
				for range 200 {
					c := call{nr: nr}
					for i := range c.args {
						c.args[i] = values[random.IntN(len(values))]
					}
					want, err := listed.verdict(c)
					if err != nil {
						t.Fatal(err)
					}
					got, err := searched.verdict(c)
					if err != nil {
						t.Fatal(err)
					}
					if got != want {
						t.Fatalf("%s, %+v: call %+v: the search says %#x, the list %#x", name, g, c, got, want)
					}
				}
			}
		}
	}
}

// numbers are those of system calls, and others.
func numbers(list []bpf.Instruction) []uint32 {
	out := bounds(list)
	for nr := range uint32(lastKnown + 20) {
		out = append(out, nr)
	}
	return out
}

// asked are values of arguments that a list compares with, and some near them.
func asked(list []bpf.Instruction) []uint64 {
	out := []uint64{0, 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<64 - 1}
	for _, in := range list {
		if j, ok := in.(bpf.JumpIf); ok {
			v := uint64(j.Val)
			out = append(out, v, v+1, v-1, v|1<<32, v|1<<31, v|0xffffffff<<32)
		}
	}
	return out
}

// TestTreeIsShort: a number is found by a few comparisons.
func TestTreeIsShort(t *testing.T) {
	p, info := standardProfile(t)
	list, err := p.list(Gaps{}, info)
	if err != nil {
		t.Fatal(err)
	}
	turned := tree(list, uint32(info.ID))
	for _, nr := range []uint32{unix.SYS_READ, unix.SYS_EXECVE, unix.SYS_OPENAT, unix.SYS_MOUNT, lastKnown + 1} {
		if n := steps(t, turned, nr); n > 12 {
			t.Errorf("system call %d takes %d steps, want 12 at most", nr, n)
		}
	}
}

// steps counts the instructions up to the verdict on a call that is decided by its number.
func steps(t *testing.T, list []bpf.Instruction, nr uint32) int {
	t.Helper()
	n := 0
	for at := 0; ; n++ {
		switch in := list[at].(type) {
		case bpf.RetConstant:
			return n + 1
		case bpf.Jump:
			at += int(in.Skip)
		case bpf.JumpIf:
			if holds, ok := compare(in, nr); !ok {
				t.Fatalf("instruction %d asks for bits", at)
			} else if holds {
				at += int(in.SkipTrue)
			} else {
				at += int(in.SkipFalse)
			}
		}
		at++
	}
}

// TestTreeOfOtherLists: what it can't turn stays a list.
func TestTreeOfOtherLists(t *testing.T) {
	number := bpf.LoadAbsolute{Off: offNr, Size: 4}
	for name, list := range map[string][]bpf.Instruction{
		"bits of the number": {number, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 4, SkipTrue: 1}, errno(unix.EPERM), errno(unix.ENOSYS)},
		"sums with it":       {number, bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: 1}, bpf.RetA{}},
		"scratch memory":     {number, bpf.StoreScratch{Src: bpf.RegA, N: 1}, errno(unix.EPERM)},
	} {
		got := tree(list, 0)
		if len(got) != len(list) || &got[0] != &list[0] {
			t.Errorf("%s: tree() = %v, want the list", name, got)
		}
	}
}
