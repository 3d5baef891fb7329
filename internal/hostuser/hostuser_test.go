package hostuser_test

import (
	"os/user"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/internal/hostuser"
)

// unusedID is a uid that the host is not expected to have.
const unusedID = "3999999999"

func TestLookup(t *testing.T) {
	if _, err := user.LookupId(unusedID); err == nil {
		t.Skipf("this host has a user with the uid %s", unusedID)
	}
	for _, want := range []hostuser.User{
		{Name: "nomad-80001", UID: 80001, GID: 80001, Home: "/nonexistent"},
		{Name: unusedID, UID: 3999999999, GID: 3999999999, Home: "/nonexistent"},
	} {
		got, err := hostuser.Lookup(want.Name)
		if err != nil || got.Name != want.Name || got.UID != want.UID || got.GID != want.GID || got.Home != want.Home || len(got.Groups) > 0 {
			t.Errorf("Lookup(%q) = %+v, %v, want %+v", want.Name, got, err, want)
		}
	}
	byName, err := hostuser.Lookup("root")
	if err != nil || byName.UID != 0 || byName.GID != 0 || byName.Home == "" || slices.Contains(byName.Groups, 0) {
		t.Errorf("Lookup(root) = %+v, %v", byName, err)
	}
	if byID, err := hostuser.Lookup("0"); err != nil || byID.Name != "root" || byID.Home != byName.Home {
		t.Errorf("Lookup(0) = %+v, %v, want root", byID, err)
	}
}

func TestLookupRefuses(t *testing.T) {
	for _, name := range []string{"", "no-such-user", "-1", "+1", "0080001", "4294967295", "4294967296",
		"nomad-", "nomad-0", "nomad-080001", "nomad-4294967295", "nomad--1"} {
		if got, err := hostuser.Lookup(name); err == nil {
			t.Errorf("Lookup(%q) = %+v, want an error", name, got)
		}
	}
}

func TestIsDynamic(t *testing.T) {
	for name, want := range map[string]bool{
		hostuser.DynamicName(80001): true, "nomad-1": true, "nomad-4294967294": true,
		"80001": false, "nomad-0": false, "nomad-01": false, "nomad-x": false, "nomad-4294967295": false, "": false,
	} {
		if got := hostuser.IsDynamic(name); got != want {
			t.Errorf("IsDynamic(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestExists(t *testing.T) {
	if !hostuser.Exists(0) {
		t.Error("Exists(0) = false, want true for root")
	}
	if _, err := user.LookupGroupId(unusedID); err == nil {
		t.Skipf("this host has a group with the ID %s", unusedID)
	}
	if hostuser.Exists(3999999999) {
		t.Error("Exists(3999999999) = true, want false")
	}
}
