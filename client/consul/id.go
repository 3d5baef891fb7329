package consul

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
)

// checkPrefix is the beginning of the ID of a check.
const checkPrefix = "_nomad-check-"

// CheckID returns the ID of a check of a service, which is a hash of its definition after interpolation, as in Nomad 2.0.
func CheckID(w *service.Workload, s *nomad.Service, c *nomad.ServiceCheck) string {
	expand := w.Env.Expand
	parts := []string{
		ServiceID(w, s), CheckName(w, s, c), expand(c.Type), expand(c.Command), strings.Join(w.Expanded(c.Args), ""),
		expand(c.Path), expand(c.Protocol), expand(c.PortLabel), c.Interval.String(), c.Timeout.String(), expand(c.Method), c.Body,
		c.OnUpdate, expand(c.Notes), ifSet("true", c.TLSSkipVerify), c.TLSServerName, headerText(Header(w, c)), c.AddressMode,
		expand(c.GRPCService), ifSet("true", c.GRPCUseTLS), ifCounts("success", c.SuccessBeforePassing),
		ifCounts("failures", c.FailuresBeforeCritical), ifCounts("failures-before-warning", c.FailuresBeforeWarning),
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "")))
	return checkPrefix + hex.EncodeToString(sum[:])
}

// CheckName returns the name of a check.
func CheckName(w *service.Workload, s *nomad.Service, c *nomad.ServiceCheck) string {
	if c.Name == "" {
		return fmt.Sprintf("service: %q check", w.Env.Expand(s.Name))
	}
	return w.Env.Expand(c.Name)
}

// Header returns the header of an HTTP check, nil for none.
func Header(w *service.Workload, c *nomad.ServiceCheck) map[string][]string {
	var out map[string][]string
	for _, key := range slices.Sorted(maps.Keys(c.Header)) {
		if out == nil {
			out = map[string][]string{}
		}
		name := w.Env.Expand(key)
		out[name] = append(out[name], w.Expanded(c.Header[key])...)
	}
	return out
}

// headerText returns a header as it is part of an ID.
func headerText(header map[string][]string) string {
	var lines []string
	for key, values := range header {
		lines = append(lines, key+strings.Join(values, ""))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func ifSet(text string, set bool) string {
	if set {
		return text
	}
	return ""
}

func ifCounts(word string, n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", word, n)
}
