package taskenv_test

import (
	"strings"
	"testing"
)

// A short job cannot make the agent use much memory, whatever its references multiply. The limit is 16 MiB.
func TestExpand_Large(t *testing.T) {
	const limit = 33 << 20 // a meta has two names, but one value in memory
	many := func(ref string) string { return strings.Repeat("${"+ref+"}", 300) }
	list := func(ref string) []any {
		all := make([]any, 300)
		for i := range all {
			all[i] = many(ref)
		}
		return all
	}
	large := strings.Repeat("A", 100_000)
	for name, c := range map[string]struct {
		meta, env map[string]string
		args      []any
		fits      bool
	}{
		"one value":   {meta: map[string]string{"x": large}, args: []any{many("NOMAD_META_x")}},
		"many values": {meta: map[string]string{"x": "0123456789"}, env: map[string]string{"A": many("NOMAD_META_x")}, args: list("A")},
		"variables":   {meta: map[string]string{"x": large}, env: map[string]string{"A": many("NOMAD_META_x"), "B": many("NOMAD_META_x")}},
		"meta in meta": {meta: map[string]string{"x": large, "y": many("NOMAD_META_x"), "z": many("NOMAD_META_y")},
			args: list("NOMAD_META_z")},
		"that fits": {meta: map[string]string{"x": large[:30_000]}, args: []any{many("NOMAD_META_x")}, fits: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := subject()
			s.Task.Meta, s.Task.Env = c.meta, c.env
			env := build(s)
			size := 0
			for _, value := range env.Map() {
				size += len(value)
			}
			block, err := env.Block(map[string]any{"args": c.args})
			if c.args != nil && (err == nil) != c.fits {
				t.Errorf("Block() = %.100v, want success: %t", err, c.fits)
			}
			if c.args != nil && !c.fits && !strings.Contains(err.Error(), "more than 16 MiB") {
				t.Errorf("Block() = %.100v, want the limit", err)
			}
			if c.fits {
				size += len(block["args"].([]any)[0].(string))
			}
			if size > limit {
				t.Errorf("%d bytes, want at most %d", size, limit)
			}
		})
	}
}

// Each text of its own fits, all of them do not.
func TestExpand_LargeTogether(t *testing.T) {
	s := subject()
	s.Task.Meta = map[string]string{"x": strings.Repeat("A", 1_000_000)}
	env, size := build(s), 0
	for range 40 {
		size += len(env.Expand("a ${NOMAD_META_x}"))
	}
	if size > 20<<20 || size < 10<<20 {
		t.Errorf("Expand() returned %d bytes in all, want about 16 MiB", size)
	}
}
