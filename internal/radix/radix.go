// Package radix is an ordered map from bytes to values of which every version stays
// as it was, and that tells who watches a key or a prefix when it changes.
//
// A Tree is a version: a value, cheap to keep, read by any number of goroutines. An
// Edit makes new versions, of several trees if need be. What it has made itself it
// changes in place, so that many changes in one Edit cost little more than the nodes
// that they meet in; what was there before is copied.
//
// A key lies below the node whose prefix it begins with:
//
//	"" ──"al"──▶ ──"loc"──▶ value of "alloc"
//	                └─"pha"──▶ value of "alpha"
//
// Watching: a change replaces the nodes from the root to the value. A channel is made
// for a node when somebody watches it, and closed after the node was replaced (Tell).
// It may be closed without a change of what is watched; never the other way.
//
// The package starts no goroutine. One Edit belongs to one goroutine.
package radix

import (
	"iter"
	"strings"
	"sync/atomic"
)

// Tree is one version of a map. Make the first with New.
type Tree struct{ root *node }

// New returns an empty tree.
func New() Tree { return Tree{&node{}} }

// node is a part of the path of keys. It is not written to once its Edit is over, but
// for watch.
type node struct {
	prefix string // of the keys below, without what the nodes above have
	value  any    // of the key that ends here, nil when there is none
	labels string // the first bytes of the prefixes of kids, in order
	kids   []*node
	edit   uint64 // which Edit made it
	watch  atomic.Pointer[chan struct{}]
}

// Get returns the value of a key, nil when there is none.
func (t Tree) Get(k []byte) any {
	if n, rest := t.closest(k); len(rest) == 0 {
		return n.value
	}
	return nil
}

// Watch is Get with a channel that is closed after the value changed.
func (t Tree) Watch(k []byte) (any, <-chan struct{}) {
	n, rest := t.closest(k)
	if len(rest) == 0 {
		return n.value, n.changed()
	}
	return nil, n.changed()
}

// WatchPrefix returns a channel that is closed after anything changed below a prefix.
func (t Tree) WatchPrefix(prefix []byte) <-chan struct{} {
	if n := t.below(prefix); n != nil {
		return n.changed()
	}
	n, _ := t.closest(prefix)
	return n.changed()
}

// Ascend returns the values of the keys that begin with prefix, by key.
func (t Tree) Ascend(prefix []byte) iter.Seq[any] {
	return func(yield func(any) bool) {
		if n := t.below(prefix); n != nil {
			n.ascend(yield)
		}
	}
}

// Descend is Ascend in falling order.
func (t Tree) Descend(prefix []byte) iter.Seq[any] {
	return func(yield func(any) bool) {
		if n := t.below(prefix); n != nil {
			n.descend(yield)
		}
	}
}

// From returns the values of the keys that are k or greater, by key.
func (t Tree) From(k []byte) iter.Seq[any] {
	return func(yield func(any) bool) { t.root.from(k, yield) }
}

// closest returns the last node that a key leads through, and what is left of the key.
func (t Tree) closest(k []byte) (*node, []byte) {
	for n := t.root; ; {
		kid := n.kid(k)
		if kid == nil || !hasPrefix(k, kid.prefix) {
			return n, k
		}
		n, k = kid, k[len(kid.prefix):]
	}
}

// below returns the node below which, with it, are all keys that begin with prefix;
// nil when there are none.
func (t Tree) below(prefix []byte) *node {
	n, rest := t.closest(prefix)
	if len(rest) == 0 {
		return n
	}
	if kid := n.kid(rest); kid != nil && common(kid.prefix, rest) == len(rest) {
		return kid
	}
	return nil
}

// kid returns the only node below n that a key can lead through, nil when there is none.
func (n *node) kid(k []byte) *node {
	if len(k) == 0 {
		return nil
	}
	if i := strings.IndexByte(n.labels, k[0]); i >= 0 {
		return n.kids[i]
	}
	return nil
}

func (n *node) ascend(yield func(any) bool) bool {
	if n.value != nil && !yield(n.value) {
		return false
	}
	for _, kid := range n.kids {
		if !kid.ascend(yield) {
			return false
		}
	}
	return true
}

func (n *node) descend(yield func(any) bool) bool {
	for i := len(n.kids) - 1; i >= 0; i-- {
		if !n.kids[i].descend(yield) {
			return false
		}
	}
	return n.value == nil || yield(n.value)
}

// from is ascend without the keys below k, of which n's own prefix is taken off.
func (n *node) from(k []byte, yield func(any) bool) bool {
	if len(k) == 0 {
		return n.ascend(yield)
	}
	for i := n.place(k[0]); i < len(n.kids); i++ {
		kid, more := n.kids[i], true
		switch {
		case hasPrefix(k, kid.prefix):
			more = kid.from(k[len(kid.prefix):], yield)
		case kid.prefix > string(k):
			more = kid.ascend(yield)
		}
		if !more {
			return false
		}
	}
	return true
}

// place returns where the kid with a label is, or belongs.
func (n *node) place(label byte) int {
	i := 0
	for i < len(n.labels) && n.labels[i] < label {
		i++
	}
	return i
}

// over is the channel of nodes that were replaced.
var over = func() *chan struct{} {
	c := make(chan struct{})
	close(c)
	return &c
}()

// changed returns a channel that is closed once the node was replaced.
func (n *node) changed() <-chan struct{} {
	if n.watch.Load() == nil {
		c := make(chan struct{})
		n.watch.CompareAndSwap(nil, &c)
	}
	return *n.watch.Load()
}

// end closes the channel of changed.
func (n *node) end() {
	if c := n.watch.Swap(over); c != nil && c != over {
		close(*c)
	}
}

func hasPrefix(k []byte, prefix string) bool {
	return len(k) >= len(prefix) && string(k[:len(prefix)]) == prefix
}

// common returns how many bytes two begin with in common.
func common(prefix string, k []byte) int {
	i := 0
	for i < len(prefix) && i < len(k) && prefix[i] == k[i] {
		i++
	}
	return i
}

// edits numbers every Edit of the process.
var edits atomic.Uint64

// Edit makes new versions of trees. What a tree was before its first change in the
// Edit stays; a version that the Edit has made is gone with the next change.
type Edit struct {
	id       uint64
	replaced []*node
}

// Begin returns an Edit without a change.
func Begin() *Edit { return &Edit{id: edits.Add(1)} }

// Tell wakes those who watch what the Edit changed. It is called once, when the new
// versions are to be seen by everybody.
func (e *Edit) Tell() {
	for _, n := range e.replaced {
		n.end()
	}
	e.replaced = nil
}

// Put returns a tree in which k has the value v, which is not nil.
func (e *Edit) Put(t Tree, k []byte, v any) Tree { return Tree{e.put(t.root, k, v)} }

// Delete returns a tree without the key k.
func (e *Edit) Delete(t Tree, k []byte) Tree {
	root, _ := e.remove(t.root, k)
	return Tree{root}
}

// own returns n, or a copy that may be changed.
func (e *Edit) own(n *node) *node {
	if n.edit == e.id {
		return n
	}
	e.replaced = append(e.replaced, n)
	return &node{prefix: n.prefix, value: n.value, labels: n.labels, kids: append([]*node(nil), n.kids...), edit: e.id}
}

// put sets the value of a key, of which n's own prefix is taken off.
func (e *Edit) put(n *node, k []byte, v any) *node {
	n = e.own(n)
	if len(k) == 0 {
		n.value = v
		return n
	}
	i := n.place(k[0])
	if i == len(n.labels) || n.labels[i] != k[0] {
		n.add(i, &node{prefix: string(k), value: v, edit: e.id})
		return n
	}
	kid := n.kids[i]
	at := common(kid.prefix, k)
	if at < len(kid.prefix) {
		kid = e.split(kid, at)
	}
	n.kids[i] = e.put(kid, k[at:], v)
	return n
}

// split returns a node with the first bytes of n's prefix, and below it n with the rest.
func (e *Edit) split(n *node, at int) *node {
	low := e.own(n)
	high := &node{prefix: low.prefix[:at], edit: e.id}
	low.prefix = low.prefix[at:]
	high.add(0, low)
	return high
}

// add inserts a kid at its place.
func (n *node) add(i int, kid *node) {
	n.labels = n.labels[:i] + kid.prefix[:1] + n.labels[i:]
	kids := make([]*node, 0, len(n.kids)+1)
	n.kids = append(append(append(kids, n.kids[:i]...), kid), n.kids[i:]...)
}

// remove takes away a key, of which n's own prefix is taken off, and says whether it
// was there.
func (e *Edit) remove(n *node, k []byte) (*node, bool) {
	if len(k) == 0 {
		if n.value == nil {
			return n, false
		}
		n = e.own(n)
		n.value = nil
		return n, true
	}
	kid := n.kid(k)
	if kid == nil || !hasPrefix(k, kid.prefix) {
		return n, false
	}
	left, found := e.remove(kid, k[len(kid.prefix):])
	if !found {
		return n, false
	}
	n = e.own(n)
	i := strings.IndexByte(n.labels, k[0])
	switch {
	case left.value == nil && len(left.kids) == 0:
		n.labels = n.labels[:i] + n.labels[i+1:]
		n.kids = append(n.kids[:i], n.kids[i+1:]...)
	case left.value == nil && len(left.kids) == 1:
		low := e.own(left.kids[0])
		low.prefix = left.prefix + low.prefix
		n.kids[i] = low
	default:
		n.kids[i] = left
	}
	return n, true
}
