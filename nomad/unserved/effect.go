package unserved

import (
	"fmt"
	"strings"
)

// sentence is the message about a feature for one user of it and for several. The number
// replaces %d.
type sentence struct{ one, many string }

func (s sentence) of(n int) string {
	if n == 1 {
		return s.one
	}
	return fmt.Sprintf(s.many, n)
}

// ofJobs returns a sentence in which only the number of jobs changes.
func ofJobs(format string) sentence {
	return sentence{strings.ReplaceAll(format, "{jobs}", "1 job"), strings.ReplaceAll(format, "{jobs}", "%d jobs")}
}

// effects maps features of jobs to messages. Each describes what servers and clients of this
// version do with a stored job that uses the feature.
var effects = map[string]sentence{
	"multiregion":      ofJobs("multiregion blocks of {jobs} have no effect: each region runs its part independently"),
	"consul namespace": ofJobs("Consul namespaces of {jobs} have no effect here"),

	"consul service":   ofJobs("services of {jobs} with provider \"consul\" are registered by clients with Consul only, until the job is registered again"),
	"consul partition": ofJobs("Consul partitions of {jobs} have no effect here"),
	"consul cluster":   ofJobs("Consul clusters of {jobs} have no effect here"),

	"volume attachment_mode": ofJobs("attachment_mode \"block-device\" of host volumes of {jobs} has no effect here"),
	"connect":                ofJobs("services and tasks of Consul Connect in {jobs} run on clients with Consul only"),

	"vault":           ofJobs("vault blocks of {jobs} work on clients with Vault only, and servers without Vault refuse the next registration"),
	"vault namespace": ofJobs("Vault namespaces of {jobs} are refused at the next registration"),
	"vault cluster":   failing("vault blocks for another cluster than default"),
}

// failing returns the message for a part of a task that makes clients refuse it.
func failing(part string) sentence {
	return ofJobs("tasks with " + part + " in {jobs} will not start on clients of this version")
}

// effectOnJobs returns the message for a feature that n jobs use.
func effectOnJobs(name string, n int) string {
	if s, ok := effects[name]; ok {
		return s.of(n)
	}
	return sentence{"1 job uses " + name + ", which this version does not support",
		"%d jobs use " + name + ", which this version does not support"}.of(n)
}
