package jobs_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Requests about existing jobs that are refused, with the code and the reason.
func TestJobs_BadRequests(t *testing.T) {
	s, _ := servertest.Start(t, nil)
	fixed := servertest.BatchJob("fixed", 1)
	servertest.Register(t, s, fixed)
	scaled := servertest.BatchJob("scaled", 2)
	scaled.TaskGroups[0].Scaling = &nomad.ScalingPolicy{Type: nomad.ScalingPolicyTypeHorizontal, Min: 1, Max: 3}
	servertest.Register(t, s, scaled)
	for id, payload := range map[string]string{"optional": nomad.DispatchPayloadOptional, "required": nomad.DispatchPayloadRequired,
		"forbidden": nomad.DispatchPayloadForbidden} {
		j := servertest.BatchJob(id, 1)
		j.ParameterizedJob = &nomad.ParameterizedJobConfig{Payload: payload, MetaRequired: []string{"who"}}
		servertest.Register(t, s, j)
	}
	longest := strings.Repeat("x", 1023)
	for _, job := range []struct {
		id       string
		periodic *nomad.PeriodicConfig
		param    *nomad.ParameterizedJobConfig
	}{{longest, nil, &nomad.ParameterizedJobConfig{MetaRequired: []string{"who"}}},
		{longest + "p", &nomad.PeriodicConfig{Enabled: true, Spec: "@yearly"}, nil}} {
		j := servertest.BatchJob(job.id, 1)
		j.Periodic, j.ParameterizedJob = job.periodic, job.param
		servertest.Register(t, s, j)
	}
	payload := func(n int) []byte { return bytes.Repeat([]byte{'x'}, n) }
	who := map[string]string{"who": "me"}
	count := func(n int64) *int64 { return &n }
	version := func(n uint64) *uint64 { return &n }
	group := map[string]string{nomad.ScalingTargetGroup: "g"}
	write := message.WriteRequest{Region: "global", Namespace: "default"}
	token := func(n int) message.WriteRequest {
		w := write
		w.IdempotencyToken = string(payload(n))
		return w
	}
	for _, tt := range []struct {
		name, method string
		req          any
		code         int // 0: accepted
		want         string
	}{
		{"revert to the present version", "Job.Revert", &message.JobRevertRequest{JobID: "fixed", WriteRequest: write}, 400,
			"can't revert to current version"},
		{"revert to an unknown version", "Job.Revert", &message.JobRevertRequest{JobID: "fixed", JobVersion: 7, WriteRequest: write}, 404,
			`job "fixed" in namespace "default" at version 7 not found`},
		{"revert from another version", "Job.Revert",
			&message.JobRevertRequest{JobID: "fixed", JobVersion: 7, EnforcePriorVersion: version(3), WriteRequest: write}, 400,
			"Current job has version 0; enforcing version 3"},
		{"dispatch of a job that is not parameterized", "Job.Dispatch", &message.JobDispatchRequest{JobID: "fixed", WriteRequest: write}, 400,
			`Specified job "fixed" is not a parameterized job`},
		{"dispatch of an unknown job", "Job.Dispatch", &message.JobDispatchRequest{JobID: "none", WriteRequest: write}, 404,
			"parameterized job not found"},
		{"payload of 16 KiB", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: "optional", Payload: payload(16384), Meta: who, WriteRequest: write}, 0, ""},
		{"payload over 16 KiB", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: "optional", Payload: payload(16385), Meta: who, WriteRequest: write}, 400,
			"Payload exceeds maximum size; 16385 > 16384"},
		{"no payload", "Job.Dispatch", &message.JobDispatchRequest{JobID: "required", Meta: who, WriteRequest: write}, 400,
			"Payload is not provided but required by parameterized job"},
		{"forbidden payload", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: "forbidden", Payload: payload(1), Meta: who, WriteRequest: write}, 400,
			"Payload provided but forbidden by parameterized job"},
		{"missing meta", "Job.Dispatch", &message.JobDispatchRequest{JobID: "optional", WriteRequest: write}, 400,
			"Dispatch did not provide required meta keys: [who]"},
		{"unpermitted meta", "Job.Dispatch", &message.JobDispatchRequest{JobID: "optional", Meta: map[string]string{"who": "me", "x": ""},
			WriteRequest: write}, 400, "Dispatch request included unpermitted metadata keys: [x]"},
		{"negative priority", "Job.Dispatch", &message.JobDispatchRequest{JobID: "optional", Meta: who, Priority: -1, WriteRequest: write},
			400, "dispatch job priority must be between [1, 100]"},
		{"metadata of 64 KiB", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: "optional", Meta: map[string]string{"who": string(payload(64<<10 - 3))}, WriteRequest: write}, 0, ""},
		{"metadata over 64 KiB", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: "optional", Meta: map[string]string{"who": string(payload(64<<10 - 2))}, WriteRequest: write}, 400,
			"the metadata of the dispatch has 65537 bytes: the limit is 65536"},
		{"metadata with NUL", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: "optional", Meta: map[string]string{"who": "\x00"}, WriteRequest: write}, 400,
			`the meta key "who" is empty, or its name or value contains a NUL character`},
		{"idempotency token of 256 bytes", "Job.Dispatch", &message.JobDispatchRequest{JobID: "optional", Meta: who, WriteRequest: token(256)},
			0, ""},
		{"idempotency token over 256 bytes", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: "optional", Meta: who, WriteRequest: token(257)}, 400,
			"the idempotency token has 257 bytes: the limit is 256"},
		{"ID prefix of 128 bytes", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: "optional", Meta: who, IdPrefixTemplate: string(payload(128)), WriteRequest: write}, 0, ""},
		{"ID prefix over 128 bytes", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: "optional", Meta: who, IdPrefixTemplate: string(payload(129)), WriteRequest: write}, 400,
			"the ID prefix of the dispatched job has 129 bytes: the limit is 128"},
		{"ID prefix with a slash", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: "optional", Meta: who, IdPrefixTemplate: "../x", WriteRequest: write}, 400,
			`the ID prefix "../x" of the dispatched job contains a slash`},
		{"ID prefix with an escape", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: "optional", Meta: who, IdPrefixTemplate: "\x1b[31m", WriteRequest: write}, 400,
			`the ID prefix "\x1b[31m" of the dispatched job`},
		{"ID prefix with a newline", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: "optional", Meta: who, IdPrefixTemplate: "a\nb", WriteRequest: write}, 400,
			`the ID prefix "a\nb" of the dispatched job`},
		{"ID prefix that is not UTF-8", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: "optional", Meta: who, IdPrefixTemplate: "\xff", WriteRequest: write}, 400,
			`the ID prefix "\xff" of the dispatched job`},
		{"child of the longest ID", "Job.Dispatch",
			&message.JobDispatchRequest{JobID: longest, Meta: who, IdPrefixTemplate: string(payload(128)), WriteRequest: write}, 0, ""},
		{"forced launch of the longest ID", "Periodic.Force", &message.PeriodicForceRequest{JobID: longest + "p", WriteRequest: write}, 0, ""},
		{"scaling above its bounds", "Job.Scale",
			&message.JobScaleRequest{JobID: "scaled", Target: group, Count: count(4), WriteRequest: write}, 400,
			"group count was greater than scaling policy maximum: 4 > 3"},
		{"scaling below its bounds", "Job.Scale",
			&message.JobScaleRequest{JobID: "scaled", Target: group, Count: count(0), WriteRequest: write}, 400,
			"group count was less than scaling policy minimum: 0 < 1"},
		{"scaling to a negative count", "Job.Scale",
			&message.JobScaleRequest{JobID: "fixed", Target: group, Count: count(-1), WriteRequest: write}, 400,
			"scaling action count can't be negative"},
		{"scaling to the maximum", "Job.Scale",
			&message.JobScaleRequest{JobID: "scaled", Target: group, Count: count(3), WriteRequest: write}, 0, ""},
		{"evaluation of a parameterized job", "Job.Evaluate", &message.JobEvaluateRequest{JobID: "optional", WriteRequest: write}, 400,
			"can't evaluate parameterized job"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := jobVersions(s.State().Snapshot())
			err := s.Call(servertest.Context(t), tt.method, tt.req, nil)
			if tt.code == 0 {
				if err != nil {
					t.Errorf("%s = %v, want success", tt.method, err)
				}
				return
			}
			servertest.WantError(t, err, tt.code, tt.want)
			if after := jobVersions(s.State().Snapshot()); after != before {
				t.Errorf("the refused request changed the jobs from %s to %s", before, after)
			}
		})
	}
}

// jobVersions returns the ID and the version of each job.
func jobVersions(snap *state.Snapshot) string {
	var b strings.Builder
	for j := range snap.Jobs(nil) {
		fmt.Fprintf(&b, "%s %d, ", j.ID, j.Version)
	}
	return b.String()
}
