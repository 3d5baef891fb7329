package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Difference is a configuration key that this version handles differently from Nomad 2.0.
type Difference struct {
	// Place is the file and the line of the key, or "" if it has none.
	Place string
	Key   string
	// Effect is what the agent does with the key.
	Effect string
	// Refused reports whether the agent does not start because of the key.
	Refused bool
}

// absentKey is the error for a key whose feature this version does not have, or that no version will have.
type absentKey struct {
	place, key, feature string
	never               bool // feature is the reason
}

// Error returns the place, the key and the missing feature.
func (e *absentKey) Error() string {
	if e.never {
		return fmt.Sprintf("%s%s: %s", e.place, e.key, e.feature)
	}
	return fmt.Sprintf("%s%s: %s: not available yet", e.place, e.key, e.feature)
}

// withoutEffect lists the keys that agents accept and ignore, with the reason.
var withoutEffect = map[string]string{
	"ui.show_cli_hints":              "commands print no hints about the web UI",
	"client.log_file":                "'monitor export' reads the root log_file",
	"server.log_file":                "'monitor export' reads the root log_file",
	"server.protocol_version":        "ignored, as in Nomad",
	"client.cpu_disable_dmidecode":   "the agent never runs dmidecode",
	"client.drain_on_shutdown.force": "ignored, as in Nomad",
	"disable_update_check":           "the agent never checks for updates",
	"disable_anonymous_signature":    "the agent never sends a signature",

	"telemetry.disable_quota_utilization_metrics": "these metrics do not exist",
}

// Differences lists the keys of configuration files and directories that this version accepts
// without effect, or refuses because their feature is missing. Any other problem is an error. The files may be a
// part of a configuration: neither a role nor data_dir is required.
func Differences(paths []string) ([]Difference, error) {
	s := Default()
	s.otherMachine = true
	if err := s.load(paths...); err != nil {
		return nil, err
	}
	s.selectLogBackend()
	out, wrong := absentKeys(s.checkKeys())
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return slices.Concat(out, s.unknownDrivers(), s.ignoredKeys()), nil
}

// absentKeys splits the errors of checks into keys whose feature is missing and other errors. It
// omits unknown drivers.
func absentKeys(err error) (out []Difference, wrong []string) {
	for _, err := range leafErrors(err) {
		switch err := err.(type) {
		case *absentKey:
			out = append(out, Difference{Place: trimPlace(err.place), Key: err.key, Effect: err.feature + ": the agent does not start",
				Refused: true})
		case unknownDriver: // unknownDrivers lists them, for parts of a configuration too
		default:
			wrong = append(wrong, err.Error())
		}
	}
	return out, wrong
}

// ignoredKeys lists the keys that the files set and the agent ignores.
func (s *Settings) ignoredKeys() []Difference {
	var out []Difference
	ignored := func(path, key, why string) {
		out = append(out, Difference{Place: trimPlace(s.place(path)), Key: key, Effect: why + ": accepted without effect"})
	}
	for _, key := range slices.Sorted(maps.Keys(withoutEffect)) {
		if _, ok := s.set[key]; ok {
			ignored(key, key, withoutEffect[key])
		}
	}
	for _, key := range s.RPC.Ignored() {
		ignored("rpc."+key, "rpc."+key, "unknown key")
	}
	for _, key := range s.IgnoredVault() {
		ignored("vault."+key, "vault."+key, "unknown key")
	}
	for _, key := range s.UnknownOptions() {
		ignored("client.options", fmt.Sprintf("client.options %q", key), "unknown option")
	}
	return out
}

// unknownDrivers lists the plugin blocks of drivers that this version does not have.
func (s *Settings) unknownDrivers() []Difference {
	var out []Difference
	_, wrong := s.instances()
	for _, w := range wrong {
		if w.Unknown && !s.external(w.Label) {
			d := Difference{Place: trimPlace(s.place("plugin." + w.Label)), Key: fmt.Sprintf("plugin %q", w.Label),
				Effect: "neither this version nor plugin_dir has the driver: the node does not have it"}
			if s.Plugin[w.Label].Backend != "" {
				d.Effect, d.Refused = "this version does not have the driver: a client does not start", true
			}
			out = append(out, d)
		}
	}
	return out
}

func trimPlace(place string) string { return strings.TrimSuffix(place, ": ") }

// leafErrors lists the errors that errors.Join has joined, in order.
func leafErrors(err error) []error {
	switch joined, ok := err.(interface{ Unwrap() []error }); {
	case err == nil:
		return nil
	case ok:
		var out []error
		for _, e := range joined.Unwrap() {
			out = append(out, leafErrors(e)...)
		}
		return out
	}
	return []error{err}
}
