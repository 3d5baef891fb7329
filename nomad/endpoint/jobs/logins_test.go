package jobs

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestLogins_Omitted checks that the number of logins is limited, and that the others are counted.
func TestLogins_Omitted(t *testing.T) {
	tg := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{{Name: "without"}}}
	for i := range maxLogins + 2 {
		tg.Tasks = append(tg.Tasks, &nomad.Task{Name: fmt.Sprint("t", i), Vault: &nomad.Vault{}})
	}
	list, omitted := new(Service).logins(nil, &nomad.Job{}, []*nomad.TaskGroup{tg, {Name: "h", Tasks: tg.Tasks[:2]}})
	if len(list) != maxLogins || omitted != 3 {
		t.Errorf("logins() = %d logins, %d omitted, want %d and 3", len(list), omitted, maxLogins)
	}
}
