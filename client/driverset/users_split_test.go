package driverset_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/client/driverset"
)

func TestUsers_Split(t *testing.T) {
	all, err := driverset.NewUsers(81000, 81007)
	if err != nil {
		t.Fatal(err)
	}
	top, err := all.Split(4)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		low, lerr := all.Assign("low")
		high, herr := top.Assign("high")
		if low != 81000+i || high != 81004+i || lerr != nil || herr != nil {
			t.Errorf("Assign() = %d, %v and %d, %v", low, lerr, high, herr)
		}
	}
	if uid, err := all.Assign("more"); err == nil {
		t.Errorf("Assign() = %d, want none", uid)
	}
	if !all.Contains(81007) {
		t.Error("a job could use the uid of a plugin")
	}
	if _, err := all.Split(3); err == nil {
		t.Error("Split() took more than half")
	}
}

// A task of an agent that did not split its pool keeps its uid.
func TestUsers_SplitClaimed(t *testing.T) {
	all, err := driverset.NewUsers(81000, 81003)
	if err != nil {
		t.Fatal(err)
	}
	top, err := all.Split(2)
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Claim(81002, "task"); err != nil {
		t.Fatal(err)
	}
	if uid, err := top.Assign("one"); err != nil || uid != 81003 {
		t.Errorf("Assign() = %d, %v", uid, err)
	}
	if uid, err := top.Assign("two"); err == nil {
		t.Errorf("Assign() = %d, the uid of a task", uid)
	}
	all.Release("task")
	if uid, err := top.Assign("two"); err != nil || uid != 81002 {
		t.Errorf("Assign() = %d, %v after the end of the task", uid, err)
	}
}
