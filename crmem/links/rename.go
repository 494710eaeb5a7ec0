package links

import (
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
)

// Renamed returns the content of an entry of s for the time after old has the name to.
// The links that lead to old by its name have the new one. Links that another spelling
// leads to another entry have the name of that entry if the new name could change where
// they lead.
func Renamed(s *crmem.Store, e, old crmem.Entry, to string) string {
	return metadata.Relink(e.Content, func(link string) string {
		target := metadata.Target(link)
		d, err := s.Link(target)
		if target == "" || err != nil {
			return link
		}
		part, name := strings.TrimSuffix(target, d.Rest), d.Entry.Name
		if moved := crmem.Fits(to, part) || crmem.Fits(old.Name, part); name != old.Name && (!moved || part == name) || name == old.Name && d.Alias && !moved {
			return link
		}
		if name == old.Name {
			name = to
		}
		if _, err := metadata.LinkTo(name + d.Rest); err != nil {
			return link
		}
		return strings.Replace(link, target, name+d.Rest, 1)
	})
}
