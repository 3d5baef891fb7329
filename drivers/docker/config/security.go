package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/pattern"
)

// Keys and values of security_opt.
const (
	OptNoNewPrivileges = "no-new-privileges"
	OptSeccomp         = "seccomp"
	optAppArmor        = "apparmor"
	optLabel           = "label"
	SeccompBuiltin     = "builtin"
	SeccompUnconfined  = "unconfined"
	appArmorDefault    = "docker-default"
)

// securityKeys are the keys of security_opt that the driver passes on.
var securityKeys = []string{OptNoNewPrivileges, OptSeccomp, optAppArmor, optLabel, "systempaths", "writable-cgroups"}

// labelLevel matches the SELinux level of a container with at most two categories.
var labelLevel = pattern.Lazy(`^level:s[0-9]{1,4}(:c[0-9]{1,4}(,c[0-9]{1,4})?)?$`)

// SecurityOption is an entry of security_opt in its only form.
type SecurityOption struct{ Key, Value string }

func (o SecurityOption) String() string {
	if o.Key == OptNoNewPrivileges && o.Value == "true" {
		return o.Key
	}
	return o.Key + "=" + o.Value
}

// safe reports whether the option gives nothing that a container does not have without it.
func (o SecurityOption) safe() bool {
	switch o.Key {
	case OptNoNewPrivileges:
		return true
	case OptSeccomp:
		return o.Value == SeccompBuiltin
	case optAppArmor:
		return o.Value == appArmorDefault
	case optLabel:
		return labelLevel().MatchString(o.Value)
	}
	return false
}

// parseSecurityOpt parses an entry of security_opt. The daemon accepts more spellings, and the last of several
// entries, so each option is passed on in one form.
func parseSecurityOpt(text string) (SecurityOption, error) {
	key, value := text, ""
	at := strings.IndexAny(text, "=:")
	if at >= 0 {
		key, value = text[:at], text[at+1:]
	}
	switch {
	case !slices.Contains(securityKeys, key):
		return SecurityOption{}, fmt.Errorf("invalid security_opt: %q: use one of %s", text, strings.Join(securityKeys, ", "))
	case key == OptNoNewPrivileges && at < 0:
		value = "true"
	case key == OptNoNewPrivileges && value != "true" && value != "false":
		return SecurityOption{}, fmt.Errorf("invalid security_opt: %q: write %s, or %s=false", text, key, key)
	case value == "":
		return SecurityOption{}, fmt.Errorf("invalid security_opt: %q has no value", text)
	}
	return SecurityOption{key, value}, nil
}

// parseSecurity parses security_opt. Apart from label, an option can be given once.
func parseSecurity(texts []string) ([]SecurityOption, error) {
	var out []SecurityOption
	for _, text := range texts {
		o, err := parseSecurityOpt(text)
		if err != nil {
			return nil, err
		}
		again := func(have SecurityOption) bool { return have == o || have.Key == o.Key && o.Key != optLabel }
		if slices.ContainsFunc(out, again) {
			return nil, fmt.Errorf("invalid security_opt: %q: %s is given twice", text, o.Key)
		}
		out = append(out, o)
	}
	return out, nil
}

// valueOf returns the value of an option, "" if it is not given.
func valueOf(opts []SecurityOption, key string) string {
	for _, o := range opts {
		if o.Key == key {
			return o.Value
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
