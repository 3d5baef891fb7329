package csi

import "errors"

// Errors of claims. Clients of Nomad match the texts of the first two: they retry a claim after ErrMaxClaims.
var (
	// ErrUnschedulable means that the plugin of the volume has no healthy instance, or that the volume cannot be written to.
	ErrUnschedulable = errors.New("volume is currently unschedulable")
	// ErrMaxClaims means that the claims of other allocations do not allow another one.
	ErrMaxClaims = errors.New("volume max claims reached")
	// ErrAttachmentMode means that other allocations use the volume with another attachment mode.
	ErrAttachmentMode = errors.New("cannot change attachment mode of claimed volume")
)

// Errors of volumes and plugins. The ID follows them.
var (
	ErrVolumeNotFound = errors.New("volume not found")
	ErrVolumeInUse    = errors.New("volume in use")
	ErrIdentity       = errors.New("volume identity cannot be updated")
	ErrPluginInUse    = errors.New("plugin in use")
)

// ErrRetryable is in the errors of nodes that do not run the plugin, so that another node may answer the call. Clients match
// its text, which is that of Nomad 2.0.
var ErrRetryable = errors.New("CSI client error (retryable)")
