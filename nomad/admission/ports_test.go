package admission

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission/testjobs"
)

// TestDriverPorts checks that the config of a task is checked against the ports of its group and its own.
func TestDriverPorts(t *testing.T) {
	group := nomad.Networks{{DynamicPorts: []nomad.Port{{Label: "http", To: 80}}, ReservedPorts: []nomad.Port{{Label: "admin", Value: 8080}}}}
	bridge := nomad.Networks{{Mode: "bridge", DynamicPorts: group[0].DynamicPorts}}
	own := nomad.Networks{{DynamicPorts: []nomad.Port{{Label: "db"}}}}
	for name, c := range map[string]struct {
		group, own nomad.Networks
		config     map[string]any
		want       string // part of the error, "" for none
	}{
		"listed": {group, nil, map[string]any{"ports": []any{"http", "admin"}}, ""},
		"unknown": {group, nil, map[string]any{"ports": []any{"web"}},
			`task "t": config of docker task: ports: port "web" not found, check network block: it has the ports admin, http`},
		"in the group's": {bridge, nil, map[string]any{"ports": []any{"http"}}, ""},
		"published twice": {bridge, nil, map[string]any{"ports": []any{"http"}, "network_mode": "bridge"},
			`the group's network publishes port "http"`},
		"on the node": {group, nil, map[string]any{"ports": []any{"admin"}, "network_mode": "host"}, ""},
		"to on the node": {group, nil, map[string]any{"ports": []any{"http"}, "network_mode": "host"},
			"with network_mode host a task uses the host port"},
		"map": {nil, own, map[string]any{"port_map": []any{map[string]any{"db": 5432}}}, ""},
		"map of another": {group, own, map[string]any{"ports": []any{"http"}, "port_map": []any{map[string]any{"admin": 80}}},
			"port_map cannot map group network ports"},
		"once only": {group, nil, map[string]any{"ports": []any{"web"}, "command": " "}, "command empty"},
	} {
		t.Run(name, func(t *testing.T) {
			job := testjobs.Exec2(func(task *nomad.Task) {
				task.Driver, task.Config = "docker", c.config
				task.Config["image"] = "web:1"
			})
			job.TaskGroups[0].Networks, job.TaskGroups[0].Tasks[0].Resources.Networks = c.group, c.own
			err := validate(job, table.Names(nil))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("validate() = %v, want %q", err, c.want)
			}
			if err != nil && strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("validate() = %v, want one error", err)
			}
		})
	}
}
