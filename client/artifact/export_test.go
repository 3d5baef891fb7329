package artifact

import "github.com/open-nomad/open-nomad/nomad"

// Key returns the key of an artifact in the cache.
func Key(f *Fetcher, t *Task, a *nomad.TaskArtifact) (string, error) {
	j, err := f.newJob(t, 0, a)
	if err != nil {
		return "", err
	}
	return j.key(), nil
}
