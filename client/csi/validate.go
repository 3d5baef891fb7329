package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// ErrMismatch is wrapped in the error for a volume that does not have the requested capabilities.
var ErrMismatch = errors.New("volume capability validation failed")

// ValidateVolume checks that a volume exists and has the requested capabilities.
func (p *Plugin) ValidateVolume(ctx context.Context, req *message.ClientCSIControllerValidateVolumeRequest,
) (*message.ClientCSIControllerValidateVolumeResponse, error) {
	if req.VolumeID == "" {
		return nil, errNoVolume
	}
	list := req.VolumeCapabilities
	if len(list) == 0 && req.AccessMode != "" {
		list = []*csi.Capability{{AccessMode: req.AccessMode, AttachmentMode: req.AttachmentMode}}
	}
	able, err := capabilities(list, req.MountOptions)
	if err != nil {
		return nil, err
	}
	c := change(controllerService, "ValidateVolumeCapabilities")
	c.texts, c.subject = validateTexts, subject{volume: req.VolumeID}
	c.hide(req.Secrets, req.MountOptions)
	var confirmed []*spec.VolumeCapability
	err = p.do(ctx, c, func(ctx context.Context) error {
		answer, err := p.controller.ValidateVolumeCapabilities(ctx, &spec.ValidateVolumeCapabilitiesRequest{VolumeId: req.VolumeID,
			VolumeCapabilities: able, Secrets: req.Secrets, Parameters: req.Parameters, VolumeContext: req.Context})
		confirmed = answer.GetConfirmed().GetVolumeCapabilities()
		return err
	})
	if err == nil && len(confirmed) > 0 {
		err = c.compare(able, confirmed)
	}
	return new(message.ClientCSIControllerValidateVolumeResponse), err
}

// compare returns an error if none of the confirmed capabilities has what was requested. Many plugins confirm only one.
func (c *call) compare(requested, confirmed []*spec.VolumeCapability) error {
	var reasons []string
	for _, got := range confirmed {
		for _, want := range requested {
			reason := c.mismatch(want, got)
			if reason == "" {
				return nil
			}
			if !slices.Contains(reasons, reason) && len(reasons) < 8 {
				reasons = append(reasons, reason)
			}
		}
	}
	return fmt.Errorf("%w: %s", ErrMismatch, strings.Join(reasons, ", "))
}

// mismatch returns why a confirmed capability is not what was requested, or "". Its text has no mount flags.
func (c *call) mismatch(want, got *spec.VolumeCapability) string {
	if want.GetAccessMode().GetMode() != got.GetAccessMode().GetMode() {
		return fmt.Sprintf("requested access mode %s, got %s", want.GetAccessMode().GetMode(), got.GetAccessMode().GetMode())
	}
	mount, confirmed := want.GetMount(), got.GetMount()
	switch {
	case mount != nil && got.GetBlock() != nil:
		return "'block-device' access type was not requested but was validated by the controller"
	case mount == nil && confirmed != nil:
		return "'file-system' access type was not requested but was validated by the controller"
	case mount == nil && got.GetBlock() == nil:
		return "requested access type 'block-device' was not validated by the controller"
	case mount == nil:
		return ""
	case mount.GetFsType() != confirmed.GetFsType():
		return fmt.Sprintf("requested filesystem type %s, got %s", short(mount.GetFsType()), c.shown(confirmed.GetFsType()))
	case !sameFlags(mount.GetMountFlags(), confirmed.GetMountFlags()):
		return "requested mount flags did not match available capabilities"
	}
	return ""
}

// sameFlags reports whether two lists have the same mount flags.
func sameFlags(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
