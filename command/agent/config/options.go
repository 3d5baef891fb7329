package config

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/client/taskhook"
)

// knownOptions are the keys of client.options that Nomad reads. Other keys are accepted, because
// plugins may read them. The agent logs them at start.
var knownOptions = []string{
	"driver.allowlist", "driver.whitelist", "driver.denylist", "driver.blacklist",
	"fingerprint.allowlist", "fingerprint.whitelist", "fingerprint.denylist", "fingerprint.blacklist",
	"fingerprint.network.disallow_link_local", "env.denylist", "env.blacklist",
	"user.denylist", "user.blacklist", "user.checked_drivers", "test.tighten_network_timeouts",
	"driver.raw_exec.enable", "driver.docker.volumes",
}

// UnknownOptions returns the sorted keys of client.options that the agent does not read.
func (s *Settings) UnknownOptions() []string {
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(s.Client.Options)), func(key string) bool { return slices.Contains(knownOptions, key) })
	slices.Sort(keys)
	return keys
}

// checkOptions checks the values of client.options.
func (s *Settings) checkOptions() error {
	const path = "client.options"
	var errs []error
	for _, key := range []string{"driver.raw_exec.enable", "fingerprint.network.disallow_link_local"} {
		if text := s.option(key); text != "" {
			if _, err := strconv.ParseBool(text); err != nil {
				errs = append(errs, s.Fault(path, "%s: must be true or false, not %q", key, text))
			}
		}
	}
	return errors.Join(errs...)
}

// Defaults of user.denylist and user.checked_drivers.
var (
	deniedUsers    = []string{"root", "Administrator"}
	checkedDrivers = []string{"exec", "qemu", "java"}
)

// deniedUsers returns the users that tasks of some drivers must not have. An instance is checked if it or its kind
// is named.
func (s *Settings) deniedUsers() taskhook.DeniedUsers {
	out := taskhook.DeniedUsers{Users: deniedUsers, Drivers: checkedDrivers}
	if _, set := s.Client.Options["user.denylist"]; set || s.option("user.blacklist") != "" {
		out.Users = list(s.option("user.denylist", "user.blacklist"))
	}
	if _, set := s.Client.Options["user.checked_drivers"]; set {
		out.Drivers = list(s.option("user.checked_drivers"))
	}
	instances, _ := s.instances()
	for _, i := range instances {
		if slices.Contains(out.Drivers, i.Kind.Name) && !slices.Contains(out.Drivers, i.Name) {
			out.Drivers = append(slices.Clip(out.Drivers), i.Name)
		}
	}
	return out
}

// option returns the first of the named options of client.options that is set.
func (s *Settings) option(names ...string) string {
	for _, name := range names {
		if v := s.Client.Options[name]; v != "" {
			return v
		}
	}
	return ""
}

// optionSet reports whether a boolean option is true.
func (s *Settings) optionSet(name string) bool {
	on, _ := strconv.ParseBool(s.option(name)) // checkOptions has checked the value
	return on
}

// list splits a comma-separated option.
func list(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
