package rules

import (
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/quota"
)

// Quota rejects an invalid quota, and limits that are not enforced.
func Quota(s *quota.Spec) error {
	switch {
	case s == nil || !objectName().MatchString(s.Name):
		return apierror.Errorf(400, "invalid quota name: it must match %s", objectName())
	case len(s.Description) > MaxDescription:
		return apierror.Errorf(400, "description of quota %q is longer than %d characters", s.Name, MaxDescription)
	case len(s.Limits) == 0:
		return apierror.Errorf(400, "quota %q has no limit", s.Name)
	}
	regions := map[string]bool{}
	for _, l := range s.Limits {
		switch {
		case l == nil || l.Region == "":
			return apierror.Errorf(400, "a limit of quota %q has no region", s.Name)
		case regions[l.Region]:
			return apierror.Errorf(400, "quota %q has two limits of region %q", s.Name, l.Region)
		}
		regions[l.Region] = true
		if err := quotaLimit(s, l); err != nil {
			return err
		}
	}
	return nil
}

func quotaLimit(s *quota.Spec, l *quota.Limit) error {
	r := l.RegionLimit
	if r == nil {
		return nil
	}
	for _, absent := range []struct {
		what  string
		asked bool
	}{
		{"devices", len(r.Devices) > 0},
		{"NUMA", r.NUMA != nil},
		{"secrets", r.SecretsMB != nil && *r.SecretsMB != 0},
		{"host volumes", r.Storage != nil && r.Storage.HostVolumesMB != 0},
		{"single node pools", len(r.NodePools) > 0},
	} {
		if absent.asked {
			return apierror.Errorf(501, "quota %q: limits of %s: not available yet", s.Name, absent.what)
		}
	}
	if r.Storage == nil || l.VariablesLimit == nil {
		return nil
	}
	if stored, older := r.Storage.VariablesMB, *l.VariablesLimit; stored != 0 && older != 0 && stored != older {
		return apierror.Errorf(400, "quota %q limits variables twice in region %q: keep the limit in storage", s.Name, l.Region)
	}
	return nil
}
