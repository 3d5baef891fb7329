package network

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// checkArgs returns an error for arguments of a job that the plugins would not read as the job has them, and for
// addresses that a job chooses on the bridge. The servers refuse such a job, but an older state may have it.
func checkArgs(n *nomad.NetworkResource) error {
	if n.CNI == nil {
		return nil
	}
	for key, value := range n.CNI.Args {
		switch {
		case key == "" || strings.ContainsAny(key, "=;") || strings.Contains(value, ";") || strings.ContainsFunc(key+value, control):
			return fmt.Errorf("args of cni has the entry %q: a key must not be empty or contain =, and neither key nor value may contain ;", key)
		case n.Mode == nomad.NetworkModeBridge && slices.Contains(nomad.CNIAddressArgs, key):
			return fmt.Errorf("args of cni has %s, but allocations do not choose their addresses on the bridge: remove it", key)
		}
	}
	return nil
}

// control reports whether a character is a control character of ASCII.
func control(c rune) bool { return c < ' ' || c == 0x7f }

// arguments returns the CNI_ARGS. Those of the allocation replace those of the job.
func arguments(r *Request) [][2]string {
	args := [][2]string{{ignoreUnknown, "true"}}
	vars := map[string]string{"NOMAD_REGION": r.Region, "NOMAD_NAMESPACE": r.Alloc.Namespace, "NOMAD_JOB_ID": r.Alloc.JobID,
		"NOMAD_GROUP_NAME": r.Alloc.TaskGroup, "NOMAD_ALLOC_ID": r.Alloc.ID}
	if r.Network.CNI != nil {
		for _, key := range slices.Sorted(maps.Keys(r.Network.CNI.Args)) {
			if _, taken := vars[key]; !taken && key != ignoreUnknown {
				args = append(args, [2]string{key, r.Network.CNI.Args[key]})
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(vars)) {
		args = append(args, [2]string{key, escape(vars[key])})
	}
	return args
}

// escape returns a value without characters that separate the arguments. The specification of CNI has no escapes. So
// these characters, control characters and % are percent-encoded: each identifier has one text, and none is missing.
func escape(value string) string {
	var out strings.Builder
	for _, c := range []byte(value) {
		if c == ';' || c == '=' || c == '%' || control(rune(c)) {
			fmt.Fprintf(&out, "%%%02X", c)
			continue
		}
		out.WriteByte(c)
	}
	return out.String()
}
