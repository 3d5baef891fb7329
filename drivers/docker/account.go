package docker

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxID is the largest ID of a user or a group that the daemon accepts.
const maxID = 1<<31 - 1

// accountName matches the names of users and groups that are looked up in an image.
var accountName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}\$?$`)

// principal is a user or a group: a name of the image, or an ID if the name is empty.
type principal struct {
	name string
	id   int
}

// isRoot reports whether the principal is root without a lookup.
func (p principal) isRoot() bool { return p.name == "root" || p.name == "" && p.id == 0 }

// parseID parses an ID. Only the canonical decimal form is accepted, because the daemon reads others too: to it,
// "+0" and "-0" are root.
func parseID(text string) (int, error) {
	id, err := strconv.Atoi(text)
	if err != nil || id < 0 || id > maxID || strconv.Itoa(id) != text {
		return 0, fmt.Errorf("%q is not a number from 0 to %d in its usual form", text, maxID)
	}
	return id, nil
}

// parsePrincipal parses a user or a group of a job.
func parsePrincipal(text string) (principal, error) {
	if accountName.MatchString(text) {
		return principal{name: text}, nil
	}
	id, err := parseID(text)
	if err != nil {
		return principal{}, fmt.Errorf("%q is neither a name nor a number from 0 to %d without sign and leading zeros", text, maxID)
	}
	return principal{id: id}, nil
}

// account is the user of a task. Without a group, it is that of the user in the image.
type account struct {
	user  principal
	group *principal
}

// parseAccount parses the user of a job: "<user>" or "<user>:<group>".
func parseAccount(text string) (a account, err error) {
	name, group, both := strings.Cut(text, ":")
	if a.user, err = parsePrincipal(name); err != nil {
		return a, fmt.Errorf("user %q: %w", text, err)
	}
	if !both {
		return a, nil
	}
	g, err := parsePrincipal(group)
	if err != nil {
		return a, fmt.Errorf("user %q: group %w", text, err)
	}
	a.group = &g
	return a, nil
}

// checkUser checks the user of a job. The value of a reference is checked on the node.
func checkUser(text string) error {
	if text == "" || strings.Contains(text, "${") {
		return nil
	}
	_, err := parseAccount(text)
	return err
}

// mayBeRoot reports whether the user of a job, or its group, is root before a lookup in the image: the user of
// the image, and what cannot be read, count as root. A name does not. StartTask looks it up and refuses a task
// whose level does not allow what it finds.
func mayBeRoot(text string) bool {
	a, err := parseAccount(text)
	return text == "" || err != nil || a.user.isRoot() || a.group != nil && a.group.isRoot()
}

// checkGroups checks group_add.
func (o *options) checkGroups() error {
	for _, text := range o.groupAdd {
		if _, err := parsePrincipal(text); err != nil {
			return fmt.Errorf("group_add: %w", err)
		}
	}
	return nil
}
