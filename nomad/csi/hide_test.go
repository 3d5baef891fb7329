package csi_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad/csi"
)

func TestHide(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		secrets csi.Secrets
		flags   []string
		want    string
	}{
		"nothing":                        {"login failed", nil, nil, "login failed"},
		"a secret":                       {"login of bob with hunter2 failed, hunter2", csi.Secrets{"p": "hunter2"}, nil, "login of bob with [REDACTED] failed, [REDACTED]"},
		"the key of a secret":            {"no password", csi.Secrets{"password": "hunter2"}, nil, "no password"},
		"an empty secret":                {"login failed", csi.Secrets{"p": ""}, nil, "login failed"},
		"a short secret":                 {"login failed", csi.Secrets{"p": "in"}, nil, "login failed"},
		"a flag":                         {"mount -o username=bob", nil, []string{"username=bob"}, "mount -o [REDACTED]"},
		"the value of a flag":            {"user bob", nil, []string{"username=bob"}, "user [REDACTED]"},
		"a flag without value":           {"mount -o noatime,ro", nil, []string{"noatime", "ro"}, "mount -o [REDACTED],[REDACTED]"},
		"a short flag in a word":         {"error: ro", nil, []string{"ro"}, "error: [REDACTED]"},
		"a short flag twice in a word":   {"roro ro", nil, []string{"ro"}, "roro [REDACTED]"},
		"flags in one string":            {"password hunter2", nil, []string{"username=bob,password=hunter2"}, "password [REDACTED]"},
		"a line of a key":                {"bad key MIIEowIBAAKC", csi.Secrets{"k": "-----BEGIN\nMIIEowIBAAKC\n"}, nil, "bad key [REDACTED]"},
		"a quoted secret":                {`login with "a\"b\nc"`, csi.Secrets{"p": "a\"b\nc"}, nil, `login with "[REDACTED]"`},
		"an escaped secret":              {"GET /?p=hunter+2%26", csi.Secrets{"p": "hunter 2&"}, nil, "GET /?p=[REDACTED]"},
		"an encoded secret":              {"Basic aHVudGVyMg==", csi.Secrets{"p": "hunter2"}, nil, "Basic [REDACTED]"},
		"a secret that contains another": {"hunter22", csi.Secrets{"a": "hunter", "b": "hunter22"}, nil, "[REDACTED]"},
	} {
		if got := csi.Hide(c.text, c.secrets, c.flags); got != c.want {
			t.Errorf("%s: Hide() = %q, want %q", name, got, c.want)
		}
	}
}
