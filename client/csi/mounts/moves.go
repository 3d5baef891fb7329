package mounts

import "fmt"

// The states of a use. The values are on disk.
const (
	claimed    = "claimed"
	mounting   = "mounting"
	mounted    = "mounted"
	unmounting = "unmounting"
	detached   = "detached"
	none       = "" // without a record
)

// event changes the state of a use.
type event string

const (
	evClaim   event = "claim"   // before the claim is requested
	evMount   event = "mount"   // before the plugin is called
	evPublish event = "publish" // the volume is mounted
	evEnd     event = "end"     // the allocation has ended
	evUnmount event = "unmount" // nothing is mounted any more
	evFree    event = "free"    // the servers know
)

type edge struct {
	from string
	by   event
}

// moves has every move of a use. The package doc draws it. A repeated claim or mount is of a later agent.
var moves = map[edge]string{
	{none, evClaim}:         claimed,
	{claimed, evClaim}:      claimed,
	{mounting, evClaim}:     mounting, // after a restart, or a reboot
	{mounted, evClaim}:      mounted,
	{claimed, evMount}:      mounting,
	{mounting, evMount}:     mounting,
	{mounted, evMount}:      mounting, // it was unmounted by somebody else
	{mounting, evPublish}:   mounted,
	{claimed, evEnd}:        detached,
	{mounting, evEnd}:       unmounting,
	{mounted, evEnd}:        unmounting,
	{unmounting, evEnd}:     unmounting,
	{detached, evEnd}:       detached,
	{unmounting, evUnmount}: detached,
	{detached, evUnmount}:   detached,
	{detached, evFree}:      none,
}

// next returns the state after an event.
func next(state string, by event) (string, error) {
	to, ok := moves[edge{state, by}]
	if !ok {
		if state == none {
			state = "not in use"
		}
		return "", fmt.Errorf("a volume that is %s has no event %s", state, by)
	}
	return to, nil
}

// live reports whether an allocation that has not ended uses the volume.
func live(state string) bool { return state == claimed || state == mounting || state == mounted }
