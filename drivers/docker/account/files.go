package account

import (
	"fmt"
	"slices"
	"strings"
)

// MaxFile limits the size of the files of an image that are read.
const MaxFile = 1 << 20

// Files are /etc/passwd and /etc/group of an image. They are empty if the image does not have them. They may contain
// anything.
type Files struct{ Passwd, Group string }

// entry is a user of an image.
type entry struct {
	name     string
	uid, gid int
}

// fields returns the fields of the lines that have at least n of them.
func fields(text string, n int) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		for line := range strings.Lines(text) {
			f := strings.Split(strings.TrimRight(line, "\r\n"), ":")
			if len(f) >= n && !yield(f) {
				return
			}
		}
	}
}

// user returns the first user with a name or an ID, nil if there is none.
func (f Files) user(p Principal) (*entry, error) {
	for line := range fields(f.Passwd, 4) {
		uid, ok := parseID(line[2])
		if p.Named() && line[0] != p.name || !p.Named() && (!ok || uid != p.id) {
			continue
		}
		gid, known := parseID(line[3])
		if !ok || !known {
			return nil, fmt.Errorf("/etc/passwd of the image has the user %s with an invalid number", p)
		}
		return &entry{line[0], uid, gid}, nil
	}
	return nil, nil
}

// group returns the ID of a group.
func (f Files) group(p Principal) (int, error) {
	if !p.Named() {
		return p.id, nil
	}
	for line := range fields(f.Group, 3) {
		if line[0] != p.name {
			continue
		}
		if gid, ok := parseID(line[2]); ok {
			return gid, nil
		}
		return 0, fmt.Errorf("/etc/group of the image has the group %s with an invalid number", p)
	}
	return 0, fmt.Errorf("the image has no group %s in /etc/group: use a number", p)
}

// memberships returns the groups that list a user.
func (f Files) memberships(user string) (out []int, err error) {
	for line := range fields(f.Group, 4) {
		if !slices.Contains(strings.Split(line[3], ","), user) {
			continue
		}
		gid, ok := parseID(line[2])
		if !ok {
			return nil, fmt.Errorf("/etc/group of the image has a group of the user %s with an invalid number", user)
		}
		out = append(out, gid)
	}
	return out, nil
}

// Resolve returns the numbers of an account, and of groups that it has in addition. As with the daemon, an account
// with a group does not have the other groups of the user.
func (f Files) Resolve(a Account, add []Principal) (IDs, error) {
	out := IDs{UID: a.User.id}
	user, err := f.user(a.User)
	if err != nil {
		return out, err
	}
	switch {
	case user != nil:
		out.UID, out.GID = user.uid, user.gid
	case a.User.Named():
		return out, fmt.Errorf("the image has no user %s in /etc/passwd: use a number", a.User)
	default:
		out.Unknown = a.Group == nil
	}
	if a.Group != nil {
		out.GID, err = f.group(*a.Group)
	} else if user != nil {
		out.Groups, err = f.memberships(user.name)
	}
	if err != nil {
		return out, err
	}
	more, err := f.Groups(add)
	if err != nil {
		return out, err
	}
	out.Groups = append(out.Groups, more...)
	slices.Sort(out.Groups)
	out.Groups = slices.Compact(out.Groups)
	return out, nil
}

// Groups returns the numbers of groups.
func (f Files) Groups(list []Principal) (out []int, err error) {
	for _, p := range list {
		gid, err := f.group(p)
		if err != nil {
			return nil, err
		}
		out = append(out, gid)
	}
	return out, nil
}

// NeedsFiles reports whether the files of the image decide on an account and its additional groups.
func NeedsFiles(a Account, add []Principal) bool {
	return a.Group == nil || a.User.Named() || a.Group.Named() || slices.ContainsFunc(add, Principal.Named)
}
