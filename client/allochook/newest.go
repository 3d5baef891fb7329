package allochook

import "github.com/open-nomad/open-nomad/nomad"

// newest passes updates of an allocation to a Background function, which may be busy: a newer one replaces one that was
// not read.
type newest chan *nomad.Allocation

func newNewest() newest { return make(newest, 1) }

// put never blocks.
func (n newest) put(alloc *nomad.Allocation) {
	select {
	case <-n: // an older update that was not read
	default:
	}
	select {
	case n <- alloc:
	default: // a concurrent caller sent an update as new as this
	}
}
