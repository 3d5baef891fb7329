package broker

import "time"

// unblocks records the index of the latest capacity change of each class, node, quota or volume.
type unblocks struct {
	last      map[string]unblock
	forgotten uint64 // the highest index that was dropped
	pruned    time.Time
}

type unblock struct {
	index uint64
	at    time.Time
}

func newUnblocks() unblocks {
	return unblocks{last: make(map[string]unblock), pruned: time.Now()}
}

func (u *unblocks) add(key string, index uint64) {
	now := time.Now()
	u.last[key] = unblock{index: max(index, u.last[key].index), at: now}
	if now.Sub(u.pruned) < forgetAfter {
		return
	}
	u.pruned = now
	for k, v := range u.last {
		if now.Sub(v.at) >= forgetAfter {
			u.forgotten = max(u.forgotten, v.index)
			delete(u.last, k)
		}
	}
}

// since reports whether a relevant key got capacity after index. For an index older than the
// records it returns true: an unnecessary scheduler run is cheap.
func (u *unblocks) since(index uint64, matters func(key string) bool) bool {
	if index < u.forgotten {
		return true
	}
	for key, v := range u.last {
		if v.index > index && matters(key) {
			return true
		}
	}
	return false
}
