package seccomp

import (
	"slices"

	"golang.org/x/net/bpf"
)

// A filter is assembled as a list: each part asks whether the number of the call is one of
// its own, and else hands on. The kernel would go through half of it at every call that it
// has to look at, and, when it is loaded, for every number that there is: that took a tenth
// of a millisecond of each start. So the list is turned into a search by number, in which
// each number leads to what the list does with it:
//
//	list     number = a? … number = b? … number = c? … default
//	tree     number >= b? ─┬─ a or less: verdict, or what is left of the list for a
//	                       └─ …
//
// What is left of the list for a number are the questions about arguments, in their order.

// guardRoom is more than the guard and the loading of the number take.
const guardRoom = 16

// tree turns the list behind the guard into a search. A list that it can't turn stays as
// it is: it says the same.
func tree(list []bpf.Instruction, arch uint32) []bpf.Instruction {
	var leaves []leaf
	for _, from := range bounds(list) {
		rest, ok := left(list, from, arch)
		if !ok {
			return list
		}
		if n := len(leaves); n > 0 && slices.Equal(leaves[n-1].rest, rest) {
			continue
		}
		leaves = append(leaves, leaf{from: from, rest: rest})
	}
	search, ok := find(leaves)
	if !ok || len(search) > maxFilter-guardRoom {
		return list
	}
	return append([]bpf.Instruction{bpf.LoadAbsolute{Off: offNr, Size: 4}}, search...)
}

// leaf is what happens with numbers from one on, up to the next leaf's.
type leaf struct {
	from uint32
	rest []bpf.Instruction
}

// bounds are the numbers from which on a comparison may come out otherwise, from 0 on. That
// some are values of arguments does no harm.
func bounds(list []bpf.Instruction) []uint32 {
	out := []uint32{0}
	for _, in := range list {
		if j, ok := in.(bpf.JumpIf); ok {
			out = append(out, j.Val)
			if j.Val+1 != 0 {
				out = append(out, j.Val+1)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// place is an instruction of a list, and what was loaded before it, if that is known.
type place struct {
	at    int
	known bool
	value uint32 // the number, or the architecture
}

// left is what a list does with one number, without the questions about that, and about the
// architecture, which the guard has seen. Jumps lead forward only, so that its instructions
// keep their order.
func left(list []bpf.Instruction, nr, arch uint32) ([]bpf.Instruction, bool) {
	l := &leaving{list: list, nr: nr, arch: arch, at: map[place]int{}}
	first, ok := l.skip(place{})
	if !ok {
		return nil, false
	}
	for ahead := []place{first}; len(ahead) > 0; { // in order of their places
		slices.SortFunc(ahead, func(a, b place) int { return a.at - b.at })
		p := ahead[0]
		ahead = ahead[1:]
		if _, seen := l.at[p]; seen {
			continue
		}
		l.at[p] = len(l.kept)
		next, ok := l.keep(p)
		if !ok {
			return nil, false
		}
		ahead = append(ahead, next...)
	}
	return l.link()
}

// leaving is that at work.
type leaving struct {
	list     []bpf.Instruction
	nr, arch uint32
	kept     []kept
	at       map[place]int // of what is kept
}

// kept is an instruction, and where it leads to.
type kept struct {
	in   bpf.Instruction
	next []place // of a comparison: if it holds, if not
}

// skip goes on to the next instruction that asks for more than that.
func (l *leaving) skip(p place) (place, bool) {
	for p.at < len(l.list) {
		switch in := l.list[p.at].(type) {
		case bpf.LoadAbsolute:
			switch in.Off {
			case offNr:
				p = place{p.at + 1, true, l.nr}
			case offArch:
				p = place{p.at + 1, true, l.arch}
			default:
				return place{at: p.at}, true
			}
		case bpf.Jump:
			p.at += 1 + int(in.Skip)
		case bpf.JumpIf:
			if !p.known {
				return p, true
			}
			holds, ok := compare(in, p.value)
			if !ok {
				return p, false
			}
			skip := in.SkipFalse
			if holds {
				skip = in.SkipTrue
			}
			p.at += 1 + int(skip)
		case bpf.RetConstant:
			return place{at: p.at}, true // whatever was loaded
		case bpf.ALUOpConstant:
			return p, !p.known
		default:
			return p, false
		}
	}
	return p, false
}

// keep keeps an instruction and tells which come behind it.
func (l *leaving) keep(p place) ([]place, bool) {
	k := kept{in: l.list[p.at]}
	var behind []int
	switch in := k.in.(type) {
	case bpf.JumpIf:
		behind = []int{p.at + 1 + int(in.SkipTrue), p.at + 1 + int(in.SkipFalse)}
	case bpf.RetConstant:
	default:
		behind = []int{p.at + 1}
	}
	for _, at := range behind {
		next, ok := l.skip(place{at: at})
		if !ok {
			return nil, false
		}
		k.next = append(k.next, next)
	}
	l.kept = append(l.kept, k)
	return k.next, true
}

// link makes instructions of what is kept.
func (l *leaving) link() ([]bpf.Instruction, bool) {
	out := make([]bpf.Instruction, len(l.kept))
	for i, k := range l.kept {
		out[i] = k.in
		var skips []int
		for _, next := range k.next {
			skips = append(skips, l.at[next]-i-1)
		}
		j, compares := k.in.(bpf.JumpIf)
		switch {
		case compares && max(skips[0], skips[1]) > 255:
			return nil, false
		case compares:
			j.SkipTrue, j.SkipFalse = uint8(skips[0]), uint8(skips[1])
			out[i] = j
		case len(skips) == 1 && skips[0] != 0:
			return nil, false // two ways meet at once: no list of ours does so
		}
	}
	return out, true
}

// compare is what a comparison says of a number.
func compare(j bpf.JumpIf, nr uint32) (holds, ok bool) {
	switch j.Cond {
	case bpf.JumpEqual:
		return nr == j.Val, true
	case bpf.JumpNotEqual:
		return nr != j.Val, true
	case bpf.JumpGreaterThan:
		return nr > j.Val, true
	case bpf.JumpLessThan:
		return nr < j.Val, true
	case bpf.JumpGreaterOrEqual:
		return nr >= j.Val, true
	case bpf.JumpLessOrEqual:
		return nr <= j.Val, true
	}
	return false, false // of bits: a number between two bounds may answer otherwise
}

// find searches the leaves for the number that was loaded.
func find(leaves []leaf) ([]bpf.Instruction, bool) {
	if len(leaves) == 1 {
		return leaves[0].rest, true
	}
	half := len(leaves) / 2
	below, ok1 := find(leaves[:half])
	above, ok2 := find(leaves[half:])
	if !ok1 || !ok2 {
		return nil, false
	}
	from := leaves[half].from
	var head []bpf.Instruction
	if len(below) <= 255 {
		head = load(bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: from, SkipTrue: uint8(len(below))})
	} else {
		head = load(bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: from, SkipFalse: 1}, bpf.Jump{Skip: uint32(len(below))})
	}
	return slices.Concat(head, below, above), true
}
