package config_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// FuzzCheckTask gives servers arbitrary blocks: none may panic, and a block without references that
// servers accept must be accepted by a node.
func FuzzCheckTask(f *testing.F) {
	for _, seed := range []string{
		`{"command":"x","args":["a"],"unveil":["r:/etc"],"ulimit":{"nofile":"1:2"},"network":{"bind":[1],"connect":[]}}`,
		`{"command":null,"ulimit":null,"network":[{}],"unveil":[null]}`, `{"ulimit":[[]],"network":"x","require_abi":{}}`,
		`{"ulimit":[{"core":{"a":1}}],"network":[{"bind":{"a":[1]}},5]}`, `{"command":"${x}","pids_limit":1e300,"oom_score_adj":-1e99}`,
		`{"command":{"a":[{}]},"args":{"b":"c"},"unveil":{"r:/":"x"},"work_dir":["/"],"seccomp_profile":true}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var block map[string]any
		if json.Unmarshal(raw, &block) != nil {
			return
		}
		err := config.CheckTask(block)
		if abi := config.TaskABI(block); err != nil && abi != 0 {
			t.Errorf("TaskABI() = %d for a refused block: %v", abi, err)
		}
		if err != nil || references(block) {
			return
		}
		v, err := drivers.Decode(block, config.TaskSpec)
		if err == nil {
			_, err = config.DecodeTask(v)
		}
		if err != nil {
			t.Errorf("servers accept a block that a node refuses: %v", err)
		}
	})
}

func references(block map[string]any) bool {
	raw, err := json.Marshal(block)
	return err != nil || bytes.Contains(raw, []byte("${"))
}
