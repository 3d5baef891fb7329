package driverset

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/hostuser"
)

// ErrNoUser means that no uid of the pool is free.
var ErrNoUser = errors.New("all dynamic users are in use, by allocations, by remaining processes, or by users of this machine")

// maxUID is the highest valid uid. The next value means "no change" to the kernel.
const maxUID = 1<<32 - 2

// Users assigns uids to tasks without a user, each to one allocation at a time. It assigns them
// in turn, so that reuse is as late as possible. A uid is free when its last owner's files are
// gone, no process has it, and the machine's user database does not list it. The owners are
// stored with the tasks, in hook states. After a restart, Claim reserves them again. Methods
// may be called concurrently.
type Users struct {
	min, max int
	last     int    // the highest that Assign returns
	from     *Users // the pool that this was split from, nil for none

	mu     sync.Mutex
	next   int
	owners map[int]string
}

// NewUsers returns a pool of the uids min to max.
func NewUsers(min, max int) (*Users, error) {
	if min <= 0 || max < min || max > maxUID {
		return nil, fmt.Errorf("dynamic users %d to %d: not a range of uids from 1 to %d", min, max, maxUID)
	}
	return &Users{min: min, max: max, last: max, next: min, owners: map[int]string{}}, nil
}

// Assign returns a free uid.
func (u *Users) Assign(owner string) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for range u.last - u.min + 1 {
		uid := u.next
		if u.next++; u.next > u.last {
			u.next = u.min
		}
		if !u.assigned(uid) && !alive(uid) && !hostuser.Exists(uint32(uid)) {
			u.owners[uid] = owner
			return uid, nil
		}
	}
	return 0, ErrNoUser
}

// assigned reports whether a uid has an owner, here or in the pool that this one was split from. The caller holds mu.
func (u *Users) assigned(uid int) bool {
	if _, ok := u.owners[uid]; ok || u.from == nil {
		return ok
	}
	u.from.mu.Lock()
	defer u.from.mu.Unlock()
	return u.from.assigned(uid)
}

// Split returns a pool of the n highest uids, which this pool then does not assign. Contains still reports them. Claim still
// accepts them, for tasks of an agent that did not split its pool: the returned pool does not assign them until they are
// released here. Call it before the first Assign. It is an error if that would leave fewer uids than it takes.
func (u *Users) Split(n int) (*Users, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last-u.min+1 < 2*n {
		return nil, fmt.Errorf("dynamic users %d to %d: at least %d are needed", u.min, u.last, 2*n)
	}
	u.last -= n
	top, err := NewUsers(u.last+1, u.last+n)
	if err == nil {
		top.from = u
	}
	return top, err
}

// alive reports whether a process has the uid.
func alive(uid int) bool {
	_, err := unix.Getpriority(unix.PRIO_USER, uid)
	return err != unix.ESRCH
}

// Claim reserves a uid that owner had before the agent restarted.
func (u *Users) Claim(uid int, owner string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now, lent := u.owners[uid]; lent && now != owner {
		return fmt.Errorf("dynamic user %d belongs to %s", uid, now)
	}
	u.owners[uid] = owner
	if u.next <= uid && uid < u.last { // lower uids may be in use too
		u.next = uid + 1
	}
	return nil
}

// Release frees every uid of an owner. The owner must have no files left.
func (u *Users) Release(owner string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.owners, func(_ int, o string) bool { return o == owner })
}

// Contains reports whether a uid is in the pool. Jobs must not use such a uid.
func (u *Users) Contains(uid int) bool { return u.min <= uid && uid <= u.max }
