package driverset

import (
	"errors"
	"fmt"
	"maps"
	"os/user"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrNoUser says that every uid of the pool is lent.
var ErrNoUser = errors.New("all dynamic users are in use, by allocations, by processes that are still there, or by users of this machine")

// maxUID is the highest that the kernel knows: the one above means "no change".
const maxUID = 1<<32 - 2

// Users lends uids to tasks that name no user, each to one allocation at a time,
// in turn, so that a uid comes back as late as possible: not before the files of
// its last owner are gone, nor while any process of the machine still has it, whoever
// started that. One that is somebody's in the machine's own database is passed over.
// Who owns which is stored with the tasks (their hook state); after a
// restart Claim takes it back. Its methods may be called concurrently.
type Users struct {
	min, max int

	mu     sync.Mutex
	next   int
	owners map[int]string
}

// NewUsers lends the uids min to max.
func NewUsers(min, max int) (*Users, error) {
	if min <= 0 || max < min || max > maxUID {
		return nil, fmt.Errorf("dynamic users %d to %d: not a range of uids from 1 to %d", min, max, maxUID)
	}
	return &Users{min: min, max: max, next: min, owners: map[int]string{}}, nil
}

// Lend returns a uid that nobody has.
func (u *Users) Lend(owner string) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for range u.max - u.min + 1 {
		uid := u.next
		if u.next++; u.next > u.max {
			u.next = u.min
		}
		if _, lent := u.owners[uid]; !lent && !alive(uid) && !known(uid) {
			u.owners[uid] = owner
			return uid, nil
		}
	}
	return 0, ErrNoUser
}

// alive says whether a process has the uid.
func alive(uid int) bool {
	_, err := unix.Getpriority(unix.PRIO_USER, uid)
	return err != unix.ESRCH
}

// known says whether the machine has a user or a group of that number.
func known(uid int) bool {
	id := strconv.Itoa(uid)
	if _, err := user.LookupId(id); err == nil {
		return true
	}
	_, err := user.LookupGroupId(id)
	return err == nil
}

// Claim takes back a uid that owner had before the agent restarted.
func (u *Users) Claim(uid int, owner string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now, lent := u.owners[uid]; lent && now != owner {
		return fmt.Errorf("dynamic user %d belongs to %s", uid, now)
	}
	u.owners[uid] = owner
	if u.next <= uid && uid < u.max { // what came before may have been lent, too
		u.next = uid + 1
	}
	return nil
}

// Release gives back every uid of an owner. Nothing on disk may be its own any more.
func (u *Users) Release(owner string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.owners, func(_ int, o string) bool { return o == owner })
}

// Contains says whether a uid is one of the pool's: no job may name it.
func (u *Users) Contains(uid int) bool { return u.min <= uid && uid <= u.max }
