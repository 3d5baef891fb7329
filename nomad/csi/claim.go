package csi

import (
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

// ClaimMode is how an allocation uses a volume.
type ClaimMode int

// The modes of claims. The values are those of the log.
const (
	ClaimRead  ClaimMode = 0
	ClaimWrite ClaimMode = 1
	ClaimGC    ClaimMode = 2 // of a log entry without an allocation, which only wakes the release
)

// ClaimState is how far the release of a claim is.
type ClaimState int

// The states of claims. The values are those of the log.
const (
	ClaimTaken              ClaimState = 0
	ClaimNodeDetached       ClaimState = 1
	ClaimControllerDetached ClaimState = 2
	ClaimReadyToFree        ClaimState = 3
	ClaimUnpublishing       ClaimState = 4
)

// String returns the name of the state.
func (s ClaimState) String() string {
	if name, ok := claimStates[s]; ok {
		return name
	}
	return fmt.Sprintf("unknown state %d", int(s))
}

var claimStates = map[ClaimState]string{
	ClaimTaken: "taken", ClaimUnpublishing: "unpublishing", ClaimNodeDetached: "node-detached",
	ClaimControllerDetached: "controller-detached", ClaimReadyToFree: "ready-to-free",
}

// ClaimEvent moves a claim to another state.
type ClaimEvent string

// The events of claims.
const (
	EventEnd              ClaimEvent = "end"               // the allocation has ended, or is gone
	EventNodeDetach       ClaimEvent = "node-detach"       // the node has unmounted the volume, or is down or gone
	EventControllerDetach ClaimEvent = "controller-detach" // the controller has detached it from the node, or need not
)

type claimEdge struct {
	from ClaimState
	by   ClaimEvent
}

// claimMoves has every move of a claim. An event that a state does not have in it is an error, except for repeated ones: each
// step may be done twice. A claim that is ready-to-free is removed from its volume by the same log entry.
//
//	taken ──end──▶ unpublishing ──node-detach──▶ node-detached ──controller-detach──▶ ready-to-free
//	controller-detached ──controller-detach──▶ ready-to-free
//
// Only leaders of Nomad 2.0 store controller-detached.
var claimMoves = map[claimEdge]ClaimState{
	{ClaimTaken, EventEnd}:                           ClaimUnpublishing,
	{ClaimUnpublishing, EventNodeDetach}:             ClaimNodeDetached,
	{ClaimNodeDetached, EventControllerDetach}:       ClaimReadyToFree,
	{ClaimControllerDetached, EventControllerDetach}: ClaimReadyToFree,
}

// Next returns the state of a claim after an event.
func (s ClaimState) Next(by ClaimEvent) (ClaimState, error) {
	to, ok := claimMoves[claimEdge{s, by}]
	if !ok {
		return s, fmt.Errorf("a claim that is %s has no event %s", s, by)
	}
	return to, nil
}

// claimEvents has every event of a claim.
var claimEvents = []ClaimEvent{EventEnd, EventNodeDetach, EventControllerDetach}

// Reaches reports whether one event moves a claim to the state. It does not if the claim has this state already or had it
// before: a step may be repeated. Any other state is an error.
func (s ClaimState) Reaches(to ClaimState) (bool, error) {
	if s == to || to.precedes(s) {
		return false, nil
	}
	for _, by := range claimEvents {
		if next, ok := claimMoves[claimEdge{s, by}]; ok && next == to {
			return true, nil
		}
	}
	return false, fmt.Errorf("a claim that is %s cannot become %s", s, to)
}

// precedes reports whether a claim in the state s can reach the other state. No moves form a cycle.
func (s ClaimState) precedes(other ClaimState) bool {
	for _, by := range claimEvents {
		if next, ok := claimMoves[claimEdge{s, by}]; ok && (next == other || next.precedes(other)) {
			return true
		}
	}
	return false
}

// Claim is the use of a volume by an allocation.
type Claim struct {
	AllocationID   string
	NodeID         string
	ExternalNodeID string // the node's ID in the storage system
	Mode           ClaimMode
	AccessMode     nomad.VolumeAccessMode
	AttachmentMode nomad.VolumeAttachmentMode
	State          ClaimState

	// Not in Nomad 2.0:
	Since int64  `codec:",omitempty"` // when the claim reached its state, in ns since 1970
	Waits string `codec:",omitempty"` // why the next step has not been done, without secrets
}
