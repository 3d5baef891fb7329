package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/internal/landlock"
)

// The policy is encoded as a flat sequence of its fields, in the order of Policy.code. Decoding by
// field name would double the start time of the stage. Numbers are signed varints. A string is its
// length and its bytes, a list its length and its elements, a pointer a boolean and the value.
// Agent and stage must be of one build: any change of the fields changes the header, and the stage
// refuses another header.
const wireHeader = "nomad sandbox policy 9\n"

// errWire means that the input is not a complete encoded policy.
var errWire = errors.New("truncated or malformed input")

// wire encodes or decodes a policy. It keeps the first error.
type wire struct {
	out     []byte // when encoding
	reading bool
	in      string // remaining input
	err     error
}

// encode encodes all of p.
func (p *Policy) encode() []byte {
	w := &wire{out: append(make([]byte, 0, 8<<10), wireHeader...)}
	p.code(w)
	return w.out
}

// decode decodes the output of encode, and refuses anything else.
func decode(raw []byte) (*Policy, error) {
	w := &wire{reading: true, in: string(raw)}
	if len(w.in) < len(wireHeader) || w.in[:len(wireHeader)] != wireHeader {
		return nil, errors.New("decode policy: unknown header: the agent has another version")
	}
	w.in = w.in[len(wireHeader):]
	p := new(Policy)
	p.code(w)
	if w.err == nil && w.in != "" {
		w.err = errWire
	}
	if w.err != nil {
		return nil, fmt.Errorf("decode policy: %w", w.err)
	}
	return p, nil
}

func (w *wire) fail() {
	w.in, w.err = "", errWire
}

// number codes an integer, which must fit into its type.
func number[T int | uint16 | uint32 | uint64](w *wire, v *T) {
	if !w.reading {
		w.out = binary.AppendVarint(w.out, int64(*v))
		return
	}
	x := w.varint()
	if *v = T(x); int64(*v) != x {
		w.fail()
	}
}

// varint decodes a number of up to 64 bits.
func (w *wire) varint() int64 {
	var u uint64
	for i := 0; i < len(w.in) && i < binary.MaxVarintLen64; i++ {
		b := w.in[i]
		if i == binary.MaxVarintLen64-1 && b > 1 {
			break
		}
		u |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			w.in = w.in[i+1:]
			return int64(u>>1) ^ -int64(u&1)
		}
	}
	w.fail()
	return 0
}

// length codes the length of a string or list. A decoded length is at most the number of remaining
// bytes.
func (w *wire) length(n int) int {
	number(w, &n)
	if w.reading && (n < 0 || n > len(w.in)) {
		w.fail()
		return 0
	}
	return n
}

func (w *wire) bool(v *bool) {
	n := 0
	if *v {
		n = 1
	}
	number(w, &n)
	if w.reading {
		if n != 0 && n != 1 {
			w.fail()
		}
		*v = n == 1
	}
}

func (w *wire) string(v *string) {
	n := w.length(len(*v))
	if !w.reading {
		w.out = append(w.out, *v...)
		return
	}
	*v, w.in = w.in[:n], w.in[n:]
}

func (w *wire) bytes(v *[]byte) {
	s := string(*v)
	w.string(&s)
	if w.reading && s != "" {
		*v = []byte(s)
	}
}

// list codes a list by its elements. An empty list decodes as nil.
func list[T any](w *wire, l *[]T, code func(*wire, *T)) {
	n := w.length(len(*l))
	if w.reading && n > 0 {
		*l = make([]T, n)
	}
	for i := range *l {
		code(w, &(*l)[i])
	}
}

// optional codes a pointer and its value.
func optional[T any](w *wire, v **T, code func(*T, *wire)) {
	there := *v != nil
	w.bool(&there)
	if w.reading && there {
		*v = new(T)
	}
	if there {
		code(*v, w)
	}
}

func (p *Policy) code(w *wire) {
	list(w, &p.Argv, (*wire).string)
	list(w, (*[]string)(&p.Env), (*wire).string)
	w.string(&p.Dir)
	w.string((*string)(&p.DirAs))
	list(w, &p.Search, (*wire).string)
	w.bool(&p.ByDescriptor)
	number(w, &p.MissingExit)
	w.string(&p.NotFound)
	w.bool(&p.Executable)
	number(w, &p.OOMScoreAdj)
	w.bool(&p.PrivateIPC)
	w.bool(&p.PrivatePID)
	w.bool(&p.OwnUsers)
	w.string(&p.NetNS)
	w.string(&p.Hostname)
	optional(w, &p.Mounts, (*Mounts).code)
	list(w, &p.Foreign, (*wire).string)
	list(w, &p.Links, (*wire).link)
	w.bool(&p.LogDenials)
	w.bool(&p.LogCalls)
	optional(w, &p.User, (*User).code)
	optional(w, &p.Files, (*Files).code)
	list(w, &p.Rlimits, (*wire).rlimit)
	w.bool(&p.Bound)
	w.bool(&p.SkipGone)
	w.bool(&p.KeepCapabilities)
	number(w, &p.Capabilities)
	w.bool(&p.KeepPrivileges)
	w.string(&p.Seccomp)
	w.bytes(&p.Filter)
}

func (u *User) code(w *wire) {
	number(w, &u.UID)
	number(w, &u.GID)
	list(w, &u.Groups, number[uint32])
}

func (r *Root) code(w *wire) {
	w.path(&r.Dir)
	list(w, &r.Links, (*wire).link)
	w.string(&r.Users)
	w.bool(&r.Setuid)
	w.bool(&r.Devices)
}

func (m *Mounts) code(w *wire) {
	optional(w, &m.Root, (*Root).code)
	list(w, &m.Hide, (*wire).string)
	list(w, &m.Unmount, (*wire).string)
	w.string(&m.View.Dir)
	w.string(&m.View.Own)
	list(w, &m.Binds, (*wire).bind)
	w.path(&m.Tmp)
	w.bool(&m.Proc)
}

func (w *wire) bind(b *Bind) {
	w.path(&b.Source)
	w.string(&b.Target)
	w.string(&b.Beneath)
	w.bool(&b.ReadOnly)
	w.bool(&b.Device)
	w.bool(&b.HostFiles)
	w.string((*string)(&b.Propagation))
}

func (f *Files) code(w *wire) {
	list(w, &f.Paths, (*wire).path)
	optional(w, &f.TCP, func(p *landlock.Ports, w *wire) {
		list(w, &p.Bind, number[uint16])
		list(w, &p.Connect, number[uint16])
	})
	w.bool(&f.Ioctl)
	w.bool(&f.Signal)
	number(w, &f.MinABI)
}

func (w *wire) path(p *Path) {
	w.string(&p.Modes)
	w.string(&p.Name)
	w.string(&p.Beneath)
	w.bool(&p.Optional)
	w.bool(&p.Device)
}

func (w *wire) link(l *Link) {
	w.string(&l.Name)
	w.string(&l.Target)
}

func (w *wire) rlimit(r *Rlimit) {
	number(w, &r.Resource)
	number(w, &r.Soft)
	number(w, &r.Hard)
}
