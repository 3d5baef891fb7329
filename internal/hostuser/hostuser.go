// Package hostuser looks up the users that tasks run as. A user is named in one of three ways:
//
//	nomad-<uid>   a dynamic user, which the client assigns to one task; it is in no database
//	<name>        a user of the host
//	<uid>         a user of the host, or a uid without a user, with a gid equal to the uid
//
// If a host user has a number as name, the name takes precedence over the uid. The package caches
// nothing and starts no goroutine.
package hostuser

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"
)

// User is a user that a task can run as.
type User struct {
	Name     string
	UID, GID uint32
	Groups   []uint32 // supplementary
	Home     string
}

// dynamicPrefix begins the name of a dynamic user.
const dynamicPrefix = "nomad-"

// noHome is the home directory of users without one.
const noHome = "/nonexistent"

// DynamicName returns the name of the dynamic user with a uid.
func DynamicName(uid uint32) string { return dynamicPrefix + strconv.FormatUint(uint64(uid), 10) }

// IsDynamic reports whether name is the name of a dynamic user.
func IsDynamic(name string) bool {
	_, ok := dynamicUID(name)
	return ok
}

func dynamicUID(name string) (uint32, bool) {
	s, ok := strings.CutPrefix(name, dynamicPrefix)
	if !ok {
		return 0, false
	}
	uid, err := parseID(s)
	return uid, err == nil && uid > 0
}

// Lookup returns a user by its name or uid.
func Lookup(name string) (User, error) {
	if uid, ok := dynamicUID(name); ok {
		return withoutEntry(name, uid), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		uid, parseErr := parseID(name)
		if parseErr != nil {
			return User{}, fmt.Errorf("look up user %q: %w", name, err)
		}
		if u, err = user.LookupId(name); err != nil {
			return withoutEntry(name, uid), nil
		}
	}
	return fromEntry(u)
}

// Exists reports whether the host has a user or a group with the ID.
func Exists(id uint32) bool {
	s := strconv.FormatUint(uint64(id), 10)
	if _, err := user.LookupId(s); err == nil {
		return true
	}
	_, err := user.LookupGroupId(s)
	return err == nil
}

// withoutEntry returns a user that is in no database.
func withoutEntry(name string, uid uint32) User {
	return User{Name: name, UID: uid, GID: uid, Home: noHome}
}

// fromEntry converts an entry of the user database.
func fromEntry(u *user.User) (User, error) {
	uid, err := parseID(u.Uid)
	if err != nil {
		return User{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	gid, err := parseID(u.Gid)
	if err != nil {
		return User{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return User{}, fmt.Errorf("groups of user %s: %w", u.Username, err)
	}
	out := User{Name: u.Username, UID: uid, GID: gid, Home: u.HomeDir}
	for _, s := range ids {
		id, err := parseID(s)
		if err != nil {
			return User{}, fmt.Errorf("groups of user %s: %w", u.Username, err)
		}
		if id != gid {
			out.Groups = append(out.Groups, id)
		}
	}
	return out, nil
}

// parseID parses a uid or gid. The highest value means "no change" to the kernel.
func parseID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 1<<32-1 || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%q is not a user or group ID", s)
	}
	return uint32(n), nil
}
