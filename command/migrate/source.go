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

// Read reads an archive to its end, checks its sums and returns the state in it, with its
// index. The records are kept in a file without a name, mode 0600, until Read returns.
func Read(r io.Reader) (*state.Snapshot, uint64, error) {
	a, err := snapshot.Open(r, "")
	if err != nil {
		return nil, 0, err
	}
	defer a.Close() // nameless: nothing of it remains
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

// Remedy adds to the error of an agent what mends it.
func Remedy(err error) error {
	var answer api.UnexpectedResponseError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &answer):
		return fmt.Errorf("%w: name an agent of the cluster with -address or NOMAD_ADDR", err)
	case answer.StatusCode() == http.StatusForbidden:
		return fmt.Errorf("%w: use a management token, or one with operator { capabilities = [\"snapshot-save\"] }", err)
	}
	return err
}
