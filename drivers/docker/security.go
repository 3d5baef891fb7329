package docker

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Keys and values of security_opt.
const (
	optNoNewPrivileges = "no-new-privileges"
	optSeccomp         = "seccomp"
	optAppArmor        = "apparmor"
	optLabel           = "label"
	seccompBuiltin     = "builtin"
	seccompUnconfined  = "unconfined"
	appArmorDefault    = "docker-default"
)

// securityKeys are the keys of security_opt that the driver passes on.
var securityKeys = []string{optNoNewPrivileges, optSeccomp, optAppArmor, optLabel, "systempaths", "writable-cgroups"}

// labelLevel matches the SELinux level of a container with at most two categories.
var labelLevel = regexp.MustCompile(`^level:s[0-9]{1,4}(:c[0-9]{1,4}(,c[0-9]{1,4})?)?$`)

// securityOpt is an entry of security_opt in its only form.
type securityOpt struct{ key, value string }

func (o securityOpt) String() string {
	if o.key == optNoNewPrivileges && o.value == "true" {
		return o.key
	}
	return o.key + "=" + o.value
}

// safe reports whether the option gives nothing that a container does not have without it.
func (o securityOpt) safe() bool {
	switch o.key {
	case optNoNewPrivileges:
		return true
	case optSeccomp:
		return o.value == seccompBuiltin
	case optAppArmor:
		return o.value == appArmorDefault
	case optLabel:
		return labelLevel.MatchString(o.value)
	}
	return false
}

// parseSecurityOpt parses an entry of security_opt. The daemon accepts more spellings, and the last of several
// entries, so each option is passed on in one form.
func parseSecurityOpt(text string) (securityOpt, error) {
	key, value := text, ""
	at := strings.IndexAny(text, "=:")
	if at >= 0 {
		key, value = text[:at], text[at+1:]
	}
	switch {
	case !slices.Contains(securityKeys, key):
		return securityOpt{}, fmt.Errorf("invalid security_opt: %q: use one of %s", text, strings.Join(securityKeys, ", "))
	case key == optNoNewPrivileges && at < 0:
		value = "true"
	case key == optNoNewPrivileges && value != "true" && value != "false":
		return securityOpt{}, fmt.Errorf("invalid security_opt: %q: write %s, or %s=false", text, key, key)
	case value == "":
		return securityOpt{}, fmt.Errorf("invalid security_opt: %q has no value", text)
	}
	return securityOpt{key, value}, nil
}

// parseSecurity parses security_opt. Apart from label, an option can be given once.
func parseSecurity(texts []string) ([]securityOpt, error) {
	var out []securityOpt
	for _, text := range texts {
		o, err := parseSecurityOpt(text)
		if err != nil {
			return nil, err
		}
		again := func(have securityOpt) bool { return have == o || have.key == o.key && o.key != optLabel }
		if slices.ContainsFunc(out, again) {
			return nil, fmt.Errorf("invalid security_opt: %q: %s is given twice", text, o.key)
		}
		out = append(out, o)
	}
	return out, nil
}

// valueOf returns the value of an option, "" if it is not given.
func valueOf(opts []securityOpt, key string) string {
	for _, o := range opts {
		if o.key == key {
			return o.value
		}
	}
	return ""
}

// unsafeSecurity returns the first entry of security_opt that needs privilege, "" for none. What cannot be read
// counts as one.
func unsafeSecurity(texts []string) string {
	for _, text := range texts {
		o, err := parseSecurityOpt(text)
		if err != nil {
			return text
		}
		if !o.safe() || strings.Contains(text, "${") {
			return o.String()
		}
	}
	return ""
}

// securityOpts returns the options as the daemon gets them, with the contents of seccomp profiles, which the
// daemon does not read itself.
func securityOpts(cfg *drivers.TaskConfig, opts []securityOpt) ([]string, error) {
	var out []string
	for _, o := range opts {
		if o.key == optSeccomp && o.value != seccompBuiltin && o.value != seccompUnconfined {
			profile, err := readProfile(cfg, o.value)
			if err != nil {
				return nil, fmt.Errorf("security_opt: seccomp profile %q: %w", o.value, err)
			}
			o.value = profile
		}
		out = append(out, o.String())
	}
	return out, nil
}
