package process

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"
)

// Account is a user that a task can run as.
type Account struct {
	Name     string
	UID, GID uint32
	Groups   []uint32 // supplementary
	Home     string
}

// dynamicPrefix begins the name of a dynamic user, which the client assigns to one task and which
// is in no database.
const dynamicPrefix = "nomad-"

// nowhere is the home of users without one.
const nowhere = "/nonexistent"

// LookupUser returns an account: "nomad-<uid>" is a dynamic user, "<uid>" a numeric user, anything
// else a user name of the host.
func LookupUser(name string) (Account, error) {
	if s, ok := strings.CutPrefix(name, dynamicPrefix); ok {
		if id, err := parseID(s); err == nil && id > 0 {
			return Account{Name: name, UID: id, GID: id, Home: nowhere}, nil
		}
	}
	u, err := user.Lookup(name)
	if err != nil {
		id, perr := parseID(name)
		if perr != nil {
			return Account{}, fmt.Errorf("look up user %q: %w", name, err)
		}
		if u, err = user.LookupId(name); err != nil {
			return Account{Name: name, UID: id, GID: id, Home: nowhere}, nil
		}
	}
	return account(u)
}

func account(u *user.User) (Account, error) {
	uid, err := parseID(u.Uid)
	if err != nil {
		return Account{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	gid, err := parseID(u.Gid)
	if err != nil {
		return Account{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	a := Account{Name: u.Username, UID: uid, GID: gid, Home: u.HomeDir}
	ids, err := u.GroupIds()
	if err != nil {
		return Account{}, fmt.Errorf("groups of user %s: %w", u.Username, err)
	}
	for _, s := range ids {
		id, err := parseID(s)
		if err != nil {
			return Account{}, fmt.Errorf("groups of user %s: %w", u.Username, err)
		}
		if id != gid {
			a.Groups = append(a.Groups, id)
		}
	}
	return a, nil
}

// parseID parses a uid or gid. The highest value means "no change" to the kernel.
func parseID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 1<<32-1 || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%q is not a user or group ID", s)
	}
	return uint32(n), nil
}
