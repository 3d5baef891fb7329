package api_test

import (
	"encoding/json"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// TestCanonicalizeNulls checks that Canonicalize removes nulls in place of blocks.
func TestCanonicalizeNulls(t *testing.T) {
	var j api.Job
	src := `{"ID": "a", "Constraints": [null], "Affinities": [null], "Spreads": [null], "TaskGroups": [null, {"Name": "g", "Volumes": {"v": null},
		"Networks": [null], "Services": [null], "Tasks": [null, {"Name": "t", "Templates": [null], "Artifacts": [null], "Services": [null],
		"VolumeMounts": [null], "ScalingPolicies": [null], "Identities": [null], "Resources": {"Devices": [null], "Networks": [null]}}]}]}`
	if err := json.Unmarshal([]byte(src), &j); err != nil {
		t.Fatal(err)
	}
	j.Canonicalize()
	if len(j.TaskGroups) != 1 || len(j.TaskGroups[0].Tasks) != 1 || len(j.TaskGroups[0].Tasks[0].Templates) != 0 {
		t.Errorf("task groups with nulls: %+v", j.TaskGroups)
	}
}
