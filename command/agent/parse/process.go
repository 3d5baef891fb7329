package parse

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/jobspec"
)

// entry is argv[0] of the process.
const entry = "nomad-parse"

func init() { companion.Register(entry, process) }

// exitInvalid is the exit status if the job file is invalid. Standard output holds the error.
const exitInvalid = 3

// process is the main function of the process. It returns the exit status.
func process() int {
	if err := limit(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	raw, err := io.ReadAll(os.Stdin)
	var r api.JobsParseRequest
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "read the request:", err)
		return 1
	}
	out, code := parsed(&r)
	if _, err := os.Stdout.Write(out); err != nil {
		return 1
	}
	return code
}

// parsed returns the job as JSON, or the error in the job file.
func parsed(r *api.JobsParseRequest) ([]byte, int) {
	job, err := jobspec.Parse(jobspec.Config{Filename: "input.hcl", Source: []byte(r.JobHCL), VarContent: r.Variables, Strict: true})
	if err != nil {
		return []byte(err.Error()), exitInvalid
	}
	if r.Canonicalize {
		job.Canonicalize()
	}
	out, err := json.Marshal(job)
	if err != nil {
		return []byte(err.Error()), exitInvalid
	}
	return out, 0
}

// limit sets the resource limits of this process. It runs before any input is read.
func limit() error {
	seconds := uint64(maxTime.Seconds())
	for _, l := range []struct {
		what  string
		which int
		most  uint64
	}{
		{"data", unix.RLIMIT_DATA, maxMemory},
		{"processor time", unix.RLIMIT_CPU, seconds},
		{"file size", unix.RLIMIT_FSIZE, 0},
		{"core size", unix.RLIMIT_CORE, 0},
	} {
		if err := unix.Setrlimit(l.which, &unix.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return fmt.Errorf("limit the %s: %w", l.what, err)
		}
	}
	// Under memory pressure the kernel kills this process before the agent.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		return fmt.Errorf("offer this process to the OOM killer: %w", err)
	}
	return nil
}
