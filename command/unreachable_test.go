package command

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestUnreachableAgent runs commands that call an agent with an address where nothing listens. Each prints
// one line with the address, the reason and the remedy, and exits with 1.
func TestUnreachableAgent(t *testing.T) {
	const address = "http://127.0.0.1:1"
	t.Setenv("NOMAD_ADDR", address)
	t.Setenv("NOMAD_CONTEXTS", t.TempDir()+"/none")
	t.Setenv("NOMAD_CONTEXT", "")
	walked := 0
	for _, c := range commands() {
		verb := c.Name[strings.LastIndex(c.Name, " ")+1:]
		if c.Local || c.Refused != "" || offline[c.Name] || !calls[verb] {
			continue
		}
		walked++
		args, ok := arguments[c.Name]
		if !ok {
			args = slices.Repeat([]string{"5f2c1111"}, c.MinArgs)
		}
		var out, err bytes.Buffer
		code := c.Adapt(strings.NewReader(""), &out, &err).Run(args)
		text := strings.TrimRight(err.String(), "\n")
		if code != 1 || out.Len() != 0 || strings.Contains(text, "\n") || !strings.Contains(text, address) ||
			!strings.Contains(text, "connection refused") || !strings.HasSuffix(text, "-address or NOMAD_ADDR to the address of another one") {
			t.Errorf("%s %q: exit code %d, output %q, error %q", c.Name, args, code, out.String(), text)
		}
	}
	if walked < 40 {
		t.Errorf("%d commands were run", walked)
	}
}

// offline are commands that read a file, not an agent.
var offline = map[string]bool{"operator snapshot inspect": true, "tls ca info": true, "tls cert info": true}

// arguments are the arguments of commands that need more than the minimum.
var arguments = map[string][]string{"eval status": {"5f2c1111"}, "eval delete": {"5f2c1111"}, "volume delete": {"-type=host", "5f2c1111"}}

// calls are the last words of the commands that call the agent without further flags or files.
var calls = map[string]bool{"status": true, "list": true, "info": true, "inspect": true, "members": true, "allocs": true, "history": true,
	"deployments": true,
	"agent-info":  true, "get": true, "read": true, "list-peers": true, "health": true, "get-config": true, "checks": true, "sandbox": true,
	"stop":   true,
	"delete": true, "promote": true, "fail": true, "pause": true, "resume": true, "gc": true, "summaries": true, "self": true, "eval": true,
	"start": true}
