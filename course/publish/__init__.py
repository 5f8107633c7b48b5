"""The lessons as other pages: a static site (`learn.py site`) and slides (`learn.py demo`).

notebook_blocks                   runs a notebook once; what it shows, as blocks
page_templates                    the templates of all pages
site_pages, site_files            the site's pages; its folder, and a look at every link
showcase, replay_svg              the home page's examples, and the README's moving picture
slide_prose, slides               blocks cut into slides
slide_show                        the slides as one HTML page with notes, written or served
html_reading                      headings, words, links and elements of HTML
"""
