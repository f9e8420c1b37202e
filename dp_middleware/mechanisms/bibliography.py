"""Whom to cite: the BibTeX entries behind every mechanism and framework."""

from __future__ import annotations

from typing import Any

from dp_middleware.errors import ParameterError
from dp_middleware.mechanisms.base import Mechanism

BIBTEX: dict[str, str] = {
    "mcsherry2007": r"""@inproceedings{mcsherry2007,
  author = {McSherry, Frank and Talwar, Kunal},
  title = {Mechanism Design via Differential Privacy},
  booktitle = {48th Annual IEEE Symposium on Foundations of Computer Science (FOCS)},
  pages = {94--103},
  year = {2007}
}""",
    "yue2021": r"""@inproceedings{yue2021,
  author = {Yue, Xiang and Du, Minxin and Wang, Tianhao and Li, Yaliang and Sun, Huan and
    Chow, Sherman S. M.},
  title = {Differential Privacy for Text Analytics via Natural Text Sanitization},
  booktitle = {Findings of the Association for Computational Linguistics: ACL-IJCNLP 2021},
  pages = {3853--3866},
  year = {2021},
  url = {https://aclanthology.org/2021.findings-acl.337}
}""",
    "chen2023": r"""@inproceedings{chen2023,
  author = {Chen, Sai and Mo, Fengran and Wang, Yanhao and Chen, Cen and Nie, Jian-Yun and
    Wang, Chengyu and Cui, Jamie},
  title = {A Customized Text Sanitization Mechanism with Differential Privacy},
  booktitle = {Findings of the Association for Computational Linguistics: ACL 2023},
  pages = {5747--5758},
  year = {2023},
  doi = {10.18653/v1/2023.findings-acl.355}
}""",
    "inferdpt2023": r"""@misc{inferdpt2023,
  author = {Tong, Meng and Chen, Kejiang and Zhang, Jie and Qi, Yuang and Zhang, Weiming and
    Yu, Nenghai and Zhang, Tianwei and Zhang, Zhikun},
  title = {{InferDPT}: Privacy-Preserving Inference for Black-box Large Language Model},
  year = {2023},
  eprint = {2310.12214},
  archiveprefix = {arXiv}
}""",
    "dyntext2025": r"""@inproceedings{dyntext2025,
  author = {Zhang, Juhua and Tian, Zhiliang and Zhu, Minghang and Song, Yiping and
    Sheng, Taishu and Yang, Siyi and Du, Qiunan and Liu, Xinwang and Huang, Minlie and
    Li, Dongsheng},
  title = {{DYNTEXT}: Semantic-Aware Dynamic Text Sanitization for Privacy-Preserving {LLM}
    Inference},
  booktitle = {Findings of the Association for Computational Linguistics: ACL 2025},
  pages = {20243--20255},
  year = {2025},
  doi = {10.18653/v1/2025.findings-acl.1038}
}""",
    "carvalho2023": r"""@inproceedings{carvalho2023,
  author = {Carvalho, Ricardo Silva and Vasiloudis, Theodore and Feyisetan, Oluwaseyi and
    Wang, Ke},
  title = {{TEM}: High Utility Metric Differential Privacy on Text},
  booktitle = {Proceedings of the 2023 SIAM International Conference on Data Mining (SDM)},
  pages = {883--890},
  year = {2023},
  doi = {10.1137/1.9781611977653.ch99}
}""",
    "feyisetan2020": r"""@inproceedings{feyisetan2020,
  author = {Feyisetan, Oluwaseyi and Balle, Borja and Drake, Thomas and Diethe, Tom},
  title = {Privacy- and Utility-Preserving Textual Analysis via Calibrated Multivariate
    Perturbations},
  booktitle = {Proceedings of the 13th International Conference on Web Search and Data Mining
    (WSDM)},
  pages = {178--186},
  year = {2020},
  doi = {10.1145/3336191.3371856}
}""",
    "stencil": r"""@misc{stencil,
  author = {Harel, Re'em and Gilboa, Niv and Pinter, Yuval},
  title = {Token-Level Privacy in Large Language Models},
  year = {2025},
  eprint = {2503.03652},
  archiveprefix = {arXiv}
}""",
    "cape2025": r"""@inproceedings{cape2025,
  author = {Wu, Haoqi and Dai, Wei and Wang, Li and Yan, Qiang},
  title = {Cape: Context-Aware Prompt Perturbation Mechanism with Differential Privacy},
  booktitle = {International Conference on Machine Learning (ICML)},
  year = {2025},
  eprint = {2505.05922},
  archiveprefix = {arXiv}
}""",
    "privrewrite": r"""@article{privrewrite,
  author = {Kim, Jongwook},
  title = {{PrivRewrite}: Differentially Private Text Rewriting Under Black-Box Access with
    Refined Sensitivity Guarantees},
  journal = {Applied Sciences},
  volume = {15},
  number = {22},
  pages = {11930},
  year = {2025},
  url = {https://www.mdpi.com/2076-3417/15/22/11930}
}""",
    "chatzikokolakis2013": r"""@inproceedings{chatzikokolakis2013,
  author = {Chatzikokolakis, Konstantinos and Andr{\'e}s, Miguel E. and
    Bordenabe, Nicol{\'a}s Emilio and Palamidessi, Catuscia},
  title = {Broadening the Scope of Differential Privacy Using Metrics},
  booktitle = {Privacy Enhancing Technologies (PETS)},
  pages = {82--102},
  publisher = {Springer},
  year = {2013},
  doi = {10.1007/978-3-642-39077-7_5}
}""",
    "kairouz2014": r"""@inproceedings{kairouz2014,
  author = {Kairouz, Peter and Oh, Sewoong and Viswanath, Pramod},
  title = {Extremal Mechanisms for Local Differential Privacy},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {27},
  pages = {2879--2887},
  year = {2014}
}""",
    "ye2018": r"""@article{ye2018,
  author = {Ye, Min and Barg, Alexander},
  title = {Optimal Schemes for Discrete Distribution Estimation Under Locally Differential
    Privacy},
  journal = {IEEE Transactions on Information Theory},
  volume = {64},
  number = {8},
  pages = {5662--5676},
  year = {2018}
}""",
    "bhowmick2018": r"""@misc{bhowmick2018,
  author = {Bhowmick, Abhishek and Duchi, John and Freudiger, Julien and Kapoor, Gaurav and
    Rogers, Ryan},
  title = {Protection Against Reconstruction and Its Applications in Private Federated Learning},
  year = {2018},
  eprint = {1812.00984},
  archiveprefix = {arXiv}
}""",
    "asi2022": r"""@inproceedings{asi2022,
  author = {Asi, Hilal and Feldman, Vitaly and Talwar, Kunal},
  title = {Optimal Algorithms for Mean Estimation under Local Differential Privacy},
  booktitle = {Proceedings of the 39th International Conference on Machine Learning (ICML)},
  pages = {1046--1056},
  year = {2022}
}""",
}
"""BibTeX entries by their keys."""


FRAMEWORKS: dict[str, tuple[str, ...]] = {
    "InferDPT": ("inferdpt2023",),
    "PrivRewrite": ("privrewrite", "mcsherry2007"),
}
"""Keys of :data:`BIBTEX` by the name of a class, of which others may be derived."""


def citations(what: Any) -> str:
    """Returns BibTeX entries of what something is built on, separated by blank lines.

    Args:
        what: A mechanism, ``InferDPT`` or ``PrivRewrite``: an object or its class. Cite the
            mechanism of the sanitizer that a framework uses as well.

    Raises:
        ParameterError: None of these, or a mechanism with a key that :data:`BIBTEX` lacks.
    """
    kind = what if isinstance(what, type) else type(what)
    keys = _keys(kind)
    missing = [key for key in keys if key not in BIBTEX]
    if missing:
        raise ParameterError(f"expected references to be keys of BIBTEX, got {missing}")
    return "\n\n".join(BIBTEX[key] for key in keys)


def _keys(kind: type) -> tuple[str, ...]:
    if issubclass(kind, Mechanism):
        return kind.references
    for base in kind.__mro__:
        if base.__module__.startswith("dp_middleware.frameworks.") and base.__name__ in FRAMEWORKS:
            return FRAMEWORKS[base.__name__]
    raise ParameterError(
        f"expected a mechanism, InferDPT, PrivRewrite or a class of these, got {kind.__name__}"
    )
