package state_test

import (
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func TestCheckResults(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	result := func(id message.CheckID, status message.CheckStatus) *message.CheckQueryResult {
		return &message.CheckQueryResult{ID: id, Mode: message.Healthiness, Status: status, StatusCode: 200, Output: "x",
			Timestamp: 7, Group: "web.g[0]", Task: "t", Service: "web", Check: "c"}
	}
	for _, a := range []string{"a1", "a10"} {
		db.PutCheckResult(a, result("c1", message.CheckFailure))
		db.PutCheckResult(a, result("c2", message.CheckSuccess))
		if err := db.PutAlloc(&nomad.Allocation{ID: a}); err != nil {
			t.Fatal(err)
		}
	}
	db.PutCheckResult("a1", result("c1", message.CheckSuccess))
	db.DeleteCheckResults("a10", []message.CheckID{"c2", "unknown"})
	db = reopen(t, db, dir)
	got, err := db.CheckResults()
	want := map[string][]*message.CheckQueryResult{
		"a1":  {result("c1", message.CheckSuccess), result("c2", message.CheckSuccess)},
		"a10": {result("c1", message.CheckFailure)},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("CheckResults() = %v, %v, want %v", got, err, want)
	}
	if err := db.DeleteAlloc("a1"); err != nil {
		t.Fatal(err)
	}
	if got, err = db.CheckResults(); err != nil || len(got) != 1 || len(got["a10"]) != 1 {
		t.Errorf("after the removal of a1: %v, %v", got, err)
	}
}
