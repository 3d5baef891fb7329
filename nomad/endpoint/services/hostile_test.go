package services

import "testing"

func TestMayBe(t *testing.T) {
	for _, c := range []struct {
		name, service string
		want          bool
	}{
		{"web", "web", true},
		{"web", "web2", false},
		{"${NOMAD_JOB_NAME}-web", "j-web", true},
		{"${NOMAD_JOB_NAME}-web", "vault", false},
		{"node-${node.unique.name}", "node-a", true},
		{"node-${node.unique.name}", "nod", false},
		{"${a}-x-${b}", "1-x-2", true},
		{"${a}-x-${b}", "1-y-2", false},
		{"a${b}a", "a", false},
		{"a${b}", "a", true},
		{"${a}${b}-web", "web", false},
		{"${a}", "anything", true},
	} {
		if got := mayBe(c.name, c.service); got != c.want {
			t.Errorf("mayBe(%q, %q) = %v", c.name, c.service, got)
		}
	}
}
