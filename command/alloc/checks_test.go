package alloc

import (
	"testing"

	"github.com/open-nomad/open-nomad/command/term"
)

// TestCheckID checks that shortened IDs of checks in Consul differ, although they have the same prefix.
func TestCheckID(t *testing.T) {
	for _, c := range []struct {
		id     string
		detail term.Detail
		want   string
	}{
		{"_nomad-check-03b259dda1593b0e", term.Short, "03b259dd"},
		{"_nomad-check-03b259dda1593b0e", term.Full, "_nomad-check-03b259dda1593b0e"},
		{"service:_nomad-task-a-group-g-web-http-sidecar-proxy:1", term.Short, "service:_nomad-task-a-group-g-web-http-sidecar-proxy:1"},
		{"26bcf4724cacbae9", term.Short, "26bcf472"},
	} {
		if got := (&checksOptions{detail: c.detail}).checkID(c.id); got != c.want {
			t.Errorf("checkID(%q) = %q, want %q", c.id, got, c.want)
		}
	}
}
