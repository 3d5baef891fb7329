package migrate

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Read reads an archive, verifies its checksums and returns the state with its index. Until
// it returns, the records are in an unnamed file with mode 0600.
func Read(r io.Reader) (*state.Snapshot, uint64, error) {
	a, err := snapshot.Open(r, "")
	if err != nil {
		return nil, 0, err
	}
	defer a.Close() // the file has no name, so this also deletes it
	records, err := a.State()
	if err != nil {
		return nil, 0, err
	}
	store, err := fsm.ReadSnapshot(records, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, 0, fmt.Errorf("snapshot archive: %w", err)
	}
	return store.Snapshot(), a.Meta.Index, nil
}

// Remedy adds a remedy to the error of an agent.
func Remedy(err error) error {
	var answer api.UnexpectedResponseError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &answer):
		return fmt.Errorf("%w: set -address or NOMAD_ADDR to an agent of the cluster", err)
	case answer.StatusCode() == http.StatusForbidden:
		return fmt.Errorf("%w: use a management token, or one with operator { capabilities = [\"snapshot-save\"] }", err)
	}
	return err
}
