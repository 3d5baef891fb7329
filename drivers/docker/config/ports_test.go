package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// The servers check the ports against the network blocks of the job.
func TestCheckPorts(t *testing.T) {
	http, admin := drivers.Port{Label: "http", To: 80}, drivers.Port{Label: "admin", Value: 8080, To: 8080}
	own := drivers.Port{Label: "own", Own: true}
	for name, c := range map[string]struct {
		config block
		group  bool
		ports  []drivers.Port
		want   string // part of the error, "" for none
	}{
		"none":              {nil, false, []drivers.Port{http}, ""},
		"listed":            {block{"ports": []any{"http"}}, false, []drivers.Port{http, admin}, ""},
		"reference":         {block{"ports": []any{"${meta.port}"}}, false, []drivers.Port{http}, ""},
		"mode by reference": {block{"ports": []any{"http"}, "network_mode": "${meta.mode}"}, false, []drivers.Port{http}, ""},
		"unknown": {block{"ports": []any{"web"}}, false, []drivers.Port{http, admin},
			`ports: port "web" not found, check network block: it has the ports admin, http`},
		"no network": {block{"ports": []any{"web"}}, false, nil, `ports: port "web" not found, check network block: it has no ports`},
		"twice": {block{"ports": []any{"http", "http"}}, false, []drivers.Port{http},
			`ports: duplicate label "http": list it once`},
		"group's network": {block{"ports": []any{"http"}}, true, []drivers.Port{http}, ""},
		"unknown, group":  {block{"ports": []any{"web"}}, true, []drivers.Port{http}, "not found"},
		"published twice": {block{"ports": []any{"http"}, "network_mode": "bridge"}, true, []drivers.Port{http},
			`ports: the group's network publishes port "http": remove network_mode`},
		"bridge": {block{"ports": []any{"http"}, "network_mode": "bridge"}, false, []drivers.Port{http}, ""},
		"no network mode": {block{"ports": []any{"http"}, "network_mode": "none"}, false, []drivers.Port{http},
			"network_mode is none, so no port can be published"},
		"node's network": {block{"ports": []any{"admin"}, "network_mode": "host"}, false, []drivers.Port{admin}, ""},
		"node's network, to": {block{"ports": []any{"http"}, "network_mode": "host"}, false, []drivers.Port{http},
			`port "http" is 80 in the container, but with network_mode host`},
		"map":             {block{"port_map": []any{block{"own": 80}}}, false, []drivers.Port{own}, ""},
		"map, own listed": {block{"port_map": block{"own": "80"}, "ports": []any{"own"}}, false, []drivers.Port{own}, ""},
		"map of the group": {block{"port_map": []any{block{"http": 80}}}, false, []drivers.Port{http},
			`port_map cannot map group network ports: list "http" in ports, and set to = 80`},
		"map, unknown": {block{"port_map": []any{block{"web": 80}}}, false, []drivers.Port{own}, `port_map: port "web" not found`},
		"map, node's network": {block{"port_map": []any{block{"own": 80}}, "network_mode": "host"}, false, []drivers.Port{own},
			"remove to and port_map"},
		"map, out of range": {block{"port_map": []any{block{"own": 65536}}}, false, []drivers.Port{own},
			`port_map: own is "65536": use a port from 1 to 65535`},
		"map, no number": {block{"port_map": []any{block{"own": "x"}}}, false, []drivers.Port{own}, `own is "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			task := hardened(c.config)
			err := config.CheckPorts(task, &drivers.NetworkAsk{Group: c.group, Ports: slices.Clone(c.ports)})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("CheckPorts() = %v, want %q", err, c.want)
			}
			// Published ports lower nothing.
			delete(task, "network_mode")
			if got := config.Isolates("app", task).Level(); got != drivers.LevelRestricted {
				t.Errorf("Isolates() = %v", got)
			}
		})
	}
}
