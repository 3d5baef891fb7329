// Package account reads the users and groups of containers.
//
// The daemon accepts more than one spelling of an ID: "+0" and "-0" are root to it. It also looks names up in the image,
// whose author decides what they are. So a job has names and canonical numbers only (Parse), the driver looks names up
// itself (Files), and the daemon gets numbers (IDs).
//
// The package accesses neither the daemon nor the disk, and starts no goroutine.
package account

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/internal/pattern"
)

// maxID is the largest ID of a user or a group that the daemon accepts.
const maxID = 1<<31 - 1

// names matches the names that are looked up in an image.
var names = pattern.Lazy(`^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}\$?$`)

// Principal is a user or a group of a job: a name of the image, or an ID if the name is empty.
type Principal struct {
	name string
	id   int
}

// IsRoot reports whether the principal is root without a lookup.
func (p Principal) IsRoot() bool { return p.name == "root" || p.name == "" && p.id == 0 }

// Named reports whether the principal is a name.
func (p Principal) Named() bool { return p.name != "" }

func (p Principal) String() string {
	if p.name != "" {
		return p.name
	}
	return strconv.Itoa(p.id)
}

// parseID parses an ID in its canonical decimal form.
func parseID(text string) (int, bool) {
	id, err := strconv.Atoi(text)
	return id, err == nil && id >= 0 && id <= maxID && strconv.Itoa(id) == text
}

// ParsePrincipal parses a user or a group of a job.
func ParsePrincipal(text string) (Principal, error) {
	if names().MatchString(text) {
		return Principal{name: text}, nil
	}
	id, ok := parseID(text)
	if !ok {
		return Principal{}, fmt.Errorf("%q is neither a name nor a number from 0 to %d without sign and leading zeros", text, maxID)
	}
	return Principal{id: id}, nil
}

// Account is the user of a task. Without a group, it has that of the user in the image.
type Account struct {
	User  Principal
	Group *Principal
}

// Parse parses the user of a job: "<user>" or "<user>:<group>".
func Parse(text string) (a Account, err error) {
	user, group, both := strings.Cut(text, ":")
	if a.User, err = ParsePrincipal(user); err != nil {
		return a, fmt.Errorf("user %q: %w", text, err)
	}
	if !both {
		return a, nil
	}
	g, err := ParsePrincipal(group)
	if err != nil {
		return a, fmt.Errorf("user %q: group %w", text, err)
	}
	a.Group = &g
	return a, nil
}

// IsRoot reports whether the user or the group is root without a lookup.
func (a Account) IsRoot() bool { return a.User.IsRoot() || a.Group != nil && a.Group.IsRoot() }

// IDs are the numbers of a user and its groups.
type IDs struct {
	UID, GID int
	Groups   []int // in addition to GID, without duplicates
	// Unknown means that the image does not have the user, so that it has no group there. GID is 0.
	Unknown bool
}

// User returns the user as the daemon gets it.
func (i IDs) User() string { return fmt.Sprintf("%d:%d", i.UID, i.GID) }

// GroupAdd returns the additional groups as the daemon gets them.
func (i IDs) GroupAdd() (out []string) {
	for _, id := range i.Groups {
		out = append(out, strconv.Itoa(id))
	}
	return out
}

// HasRoot names what of the user and its groups is root, "" if nothing is.
func (i IDs) HasRoot() string {
	switch {
	case i.UID == 0:
		return "the user 0"
	case i.GID == 0:
		return "the group 0"
	case slices.Contains(i.Groups, 0):
		return "the additional group 0"
	}
	return ""
}
