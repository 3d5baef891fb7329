package apierror

import "strings"

// RefusedAllocs is the error of an update of allocations that was applied except for some of
// them, which the caller may not update. errors.Is matches it with ErrPermissionDenied, and its
// identity is kept over RPC.
type RefusedAllocs struct{ IDs []string }

// refusedPrefix and refusedEnd enclose the IDs in the text of a RefusedAllocs.
const refusedPrefix = "all updates but those of these allocations are applied: "

var refusedEnd = ": " + ErrPermissionDenied.Error()

func (e *RefusedAllocs) Error() string { return refusedPrefix + strings.Join(e.IDs, ", ") + refusedEnd }

// Unwrap returns ErrPermissionDenied.
func (e *RefusedAllocs) Unwrap() error { return ErrPermissionDenied }

// refusedFromText is the inverse of RefusedAllocs.Error.
func refusedFromText(text string) (*RefusedAllocs, bool) {
	rest, begins := strings.CutPrefix(text, refusedPrefix)
	ids, ends := strings.CutSuffix(rest, refusedEnd)
	if !begins || !ends || ids == "" {
		return nil, false
	}
	return &RefusedAllocs{IDs: strings.Split(ids, ", ")}, true
}
