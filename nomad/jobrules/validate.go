// Package jobrules contains the rules that a job must follow:
//
//   - Bound rejects a job that is too large for the other steps.
//   - Canonicalize sets defaults.
//   - Validate returns all errors.
//   - Warnings returns warnings about options that are valid but probably unintended.
//   - UnsupportedFeatures lists the features in a job that this version does not support.
//
// Servers apply the rules at registration, in this order: Bound, Canonicalize, Validate, Warnings. Nodes repeat CheckDNS and
// CheckMountTarget after they have resolved references. The package reads no state and no data of nodes, and it starts
// no goroutine.
package jobrules

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rules"
)

// faults collects the validation errors of a job. Each error begins with place, such as: job "x", group "g".
type faults struct {
	place   string
	list    *[]error
	regexps *int // instructions of the regular expressions so far
}

const (
	// maxFaults is the maximum number of errors of a job.
	maxFaults = 100
	// maxShown and maxCause are the maximum numbers of bytes of a text of the caller, and of another error, in an error.
	maxShown = 128
	maxCause = 512
)

// add adds an error. It shortens its texts, and counts nothing after maxFaults errors.
func (f *faults) add(format string, args ...any) {
	switch n := len(*f.list); {
	case n == maxFaults:
		*f.list = append(*f.list, errors.New("the job has more errors: correct these first"))
		return
	case n > maxFaults:
		return
	}
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = untrusted.Shorten(arg, maxShown)
		case error:
			args[i] = untrusted.Shorten(arg.Error(), maxCause)
		default:
			if v := reflect.ValueOf(arg); v.Kind() == reflect.String { // a string with a type of its own, such as a mode
				args[i] = untrusted.Shorten(v.String(), maxShown)
			}
		}
	}
	*f.list = append(*f.list, errors.New(f.place+": "+fmt.Sprintf(format, args...)))
}

// in returns faults for a part of the job. Both share one list.
func (f *faults) in(kind, name string) *faults {
	return &faults{place: fmt.Sprintf("%s, %s %q", f.place, kind, untrusted.Shorten(name, maxShown)), list: f.list, regexps: f.regexps}
}

// Place returns the place of a group in messages, and of a task in it unless task is "".
func Place(job, group, task string) string {
	at := fmt.Sprintf("job %q, group %q", untrusted.Shorten(job, maxShown), untrusted.Shorten(group, maxShown))
	if task != "" {
		at += fmt.Sprintf(", task %q", untrusted.Shorten(task, maxShown))
	}
	return at
}

// Validate returns the validation errors of a canonical job, one per line, or nil. It lists maxFaults at most. The Unwrap method of
// the error returns the individual errors. A feature that this version does not support is an error.
func Validate(j *nomad.Job) error {
	var list []error
	f := &faults{place: fmt.Sprintf("job %q", untrusted.Shorten(j.ID, maxShown)), list: &list, regexps: new(int)}
	if err := Bound(j); err != nil {
		f.add("%v", err)
		return list[0]
	}
	refuse(f, absent, absentForJobs, j)
	validateNames(j, f)
	validateKind(j, f)
	validatePeriodic(j, f)
	validateMeta(f, j.Meta)
	validateConstraints(f, j.Constraints)
	validateAffinities(f, j.Affinities)
	validateSpreads(f, j.Spreads)
	if j.UI != nil && len(j.UI.Description) > 1000 {
		f.add("the description of the ui block has %d characters: the limit is 1000", len(j.UI.Description))
	}
	validateGroups(j, f)
	return errors.Join(list...)
}

// Limits of job IDs in bytes. The servers add a suffix to the ID of the parent to get that of a child.
const (
	maxJobID       = 1024
	maxChildSuffix = 192
)

// maxID returns the maximum length of the job's ID.
func maxID(j *nomad.Job) int {
	if j.ParentID != "" {
		return maxJobID + maxChildSuffix
	}
	return maxJobID
}

func validateNames(j *nomad.Job, f *faults) {
	switch {
	case j.ID == "":
		f.add("missing ID: set one")
	case len(j.ID) > maxID(j):
		f.add("the ID has %d bytes: the limit is %d", len(j.ID), maxID(j))
	case strings.ContainsAny(j.ID, " \x00"):
		f.add("the ID must not contain spaces or NUL characters")
	}
	if strings.Contains(j.Name, "\x00") {
		f.add("the name must not contain NUL characters")
	}
	if j.Region == "" {
		f.add("missing region")
	}
	if j.Namespace == nomad.AllNamespacesSentinel {
		f.add("namespace %q is not valid: name a single namespace", j.Namespace)
	}
	if slices.Contains(j.Datacenters, "") {
		f.add("datacenters contains an empty name: remove it")
	}
	if !rules.NodePoolName().MatchString(j.NodePool) {
		f.add("node_pool %q is not a valid name: use 1 to 128 letters, digits, - and _", j.NodePool)
	}
}

// validateKind checks the type of the job, and the options that depend on the type.
func validateKind(j *nomad.Job, f *faults) {
	switch j.Type {
	case nomad.JobTypeService, nomad.JobTypeBatch:
	case nomad.JobTypeSystem, nomad.JobTypeSysBatch:
		if len(j.Affinities) > 0 {
			f.add("affinity blocks are not allowed in %s jobs, which run on every feasible node: remove them or use constraints", j.Type)
		}
		if len(j.Spreads) > 0 {
			f.add("spread blocks are not allowed in %s jobs, which run on every feasible node: remove them", j.Type)
		}
	default:
		f.add("unknown type %q: use service, batch, system or sysbatch", j.Type)
	}
	if j.Priority < nomad.JobMinPriority || j.Priority > nomad.JobMaxPriority {
		f.add("priority is %d: it must be %d to %d", j.Priority, nomad.JobMinPriority, nomad.JobMaxPriority)
	}
	p := j.ParameterizedJob
	if p == nil {
		return
	}
	if j.Type != nomad.JobTypeBatch && j.Type != nomad.JobTypeSysBatch {
		f.add("parameterized requires a job of type batch or sysbatch, not %s", j.Type)
	}
	switch p.Payload {
	case nomad.DispatchPayloadOptional, nomad.DispatchPayloadRequired, nomad.DispatchPayloadForbidden:
	default:
		f.add("payload of the parameterized block is %q: use optional, required or forbidden", p.Payload)
	}
	required := make(map[string]bool, len(p.MetaRequired))
	for _, key := range p.MetaRequired {
		required[key] = true
	}
	for _, key := range p.MetaOptional {
		if required[key] {
			f.add("the parameterized block lists the meta key %q as required and as optional: keep one", key)
		}
	}
}

func validateGroups(j *nomad.Job, f *faults) {
	if len(j.TaskGroups) == 0 {
		f.add("no groups: add a group with a task")
	}
	seen := map[string]bool{}
	total := 0
	for i, tg := range j.TaskGroups {
		if tg.Name == "" {
			f.add("group %d has no name", i+1)
		} else if seen[tg.Name] {
			f.add("duplicate group name %q: rename one", tg.Name)
		}
		seen[tg.Name] = true
		total += max(tg.Count, 0)
		validateTaskGroup(tg, f.in("group", tg.Name), j)
	}
	if total > nomad.JobDefaultMaxCount {
		f.add("the sum of the group counts is %d: the limit is %d", total, nomad.JobDefaultMaxCount)
	}
}

const maxName = 128

// validateName checks the name of a group or task. The name becomes a directory name. It is also a part of variable
// paths and of identity subjects, which use / and : as separators.
func validateName(f *faults, name string) {
	switch {
	case len(name) > maxName:
		f.add("the name has %d bytes: the limit is %d", len(name), maxName)
	case strings.ContainsAny(name, `/\:`) || strings.ContainsFunc(name, unicode.IsControl):
		f.add(`the name must not contain /, \, : or control characters`)
	case name == "." || name == "..":
		f.add("the name is reserved for a directory: choose another")
	}
}

func validateMeta(f *faults, meta map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(meta)) {
		if k == "" || strings.ContainsRune(k, 0) || strings.ContainsRune(meta[k], 0) {
			f.add("the meta key %q is empty, or its name or value contains a NUL character", k)
		}
	}
}
