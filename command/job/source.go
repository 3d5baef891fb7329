package job

import (
	"cmp"
	"context"

	"github.com/open-nomad/open-nomad/command/agent/httpapi"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/nomad"
)

// Source reads jobspecs for commands of other packages, as job run does.
type Source struct{ from source }

// Declare declares the flags of jobspecs: -json-spec for JSON, -var and others.
func (s *Source) Declare(f *term.Flags) {
	f.BoolVar(&s.from.json, "json-spec", false, "Parse the jobspecs as JSON, in the format of 'job run -output'.")
	s.from.declareInput(f)
}

// Read parses the jobspec at path, which is a file, a URL, or "-" for standard input. It returns the job in the form
// of the servers. The namespace is that of the jobspec, or of the flag or the environment.
func (s *Source) Read(ctx context.Context, e *term.Env, path, namespace string) (*nomad.Job, error) {
	parsed, _, err := s.from.read(ctx, e, path)
	if err != nil {
		return nil, err
	}
	if parsed.Namespace == nil {
		ns := cmp.Or(namespace, nomad.DefaultNamespace)
		parsed.Namespace = &ns
	}
	return httpapi.CanonicalJob(parsed)
}
