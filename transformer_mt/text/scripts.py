"""Chinese text told apart from others, and its two scripts from each other, without a dictionary.

This file does not know languages: Japanese also writes Han characters.
"""

import re
from typing import NamedTuple

# For character classes: ideographs of all blocks, radicals, 々, 〆, 〇 and the old digits 〡〢〣.
HAN = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)

_HAN_RUN = re.compile(f"[{HAN}]+")
_KANA = re.compile(
    "[\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d]"
)
_HANGUL = re.compile("[\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb]")
_LATIN = re.compile(
    "[\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u1e00-\u1eff\u2c60-\u2c7f\ua722-\ua7ff"
    "\u2184\uab30-\uab5a\uab60-\uab64\uab66-\uab68\uff21-\uff3a\uff41-\uff5a]"
)
# The rest of a text without ASCII, Han and the punctuation around them: mostly nothing.
_RARE = re.compile(f"[^{HAN}\u2010-\u2027\u3000-\u3004\u3008-\u3020\uff01-\uff0f\uff1a-\uff20]+")
_ASCII = bytes(range(128))
_NO_LETTER = bytes(code for code in range(256) if code > 127 or not chr(code).isalpha())


class Letters(NamedTuple):
    """The numbers of letters of a text, by script."""

    han: int
    kana: int
    hangul: int
    latin: int
    other: int


def script_of(text: str) -> Letters:
    """Count the letters of a text by script; digits, marks and punctuation count nowhere."""
    if text.isascii():
        return Letters(0, 0, 0, len(text.encode().translate(None, _NO_LETTER)), 0)
    encoded = text.encode("utf-8", "ignore")
    latin = len(encoded.translate(None, _NO_LETTER))
    rest = encoded.translate(None, _ASCII).decode()
    han = sum(map(len, _HAN_RUN.findall(rest)))
    rare = "".join(_RARE.findall(rest))
    if not rare:
        return Letters(han, 0, 0, latin, 0)
    kana, hangul = len(_KANA.findall(rare)), len(_HANGUL.findall(rare))
    rare_latin = len(_LATIN.findall(rare))
    other = sum(map(str.isalpha, rare)) - kana - hangul - rare_latin
    return Letters(han, kana, hangul, latin + rare_latin, max(other, 0))


# Characters that are frequent in one of the two scripts and not used in the other one, not even in
# a name, as 范 and 叶 are.
_ONLY_TRADITIONAL = (
    "亞併來個們備傳傷僅優儲兒內刪則剛創動區協厭員問啟單嗎嘗國園圖執報場塊壞夢媽學實寫寶對導層"
    "屬師帶幫庫張彈後徑從愛態慣應戰戶換擇擔據擴敗數斷於時書會東條業構樂樓標樣樹機檔檢權歡歲歸"
    "殺氣決沒沖淨減測湯準溫滿漢漲潔濕濟灣為無煙煩熱燈燒營爾狀獎獨獲獻現瑪環產畫異當瘋療發盡監"
    "盤睜矚確碼礎禍禮種稱積穩窮競筆節範築簡糧紀約紅純紙級紛細紹終組結絕絡給統絲經綠維網緊緒線"
    "緣編緩縣縮總績織繼續罰羅義習聖聞聯聲職聽腦腳膽臉與興舉舊莊華萬葉蓋藝藥蘇蘋蘭處號蟲術衛衝"
    "補裝裡複見規視親覺觀觸訂計討訓記訪設許訴評詞試詩話該詳認語誠誤說誰課調談請論諸謊講謝證識"
    "譯議護讀變讓讚豐貓貝負財貢貧貨貪責貴買費賀資賓賞賣質賴購賽贏車軍較載輕輛輪輸轉農這連進運"
    "過達遞遠適遲選還邊鄰醫釋針銀鋼錄錢錯鍵鎮鏈鏡鐘鐵長門閉開間閱關陰陽隊階際隨險雖雙雞離難雲"
    "電霧靜響頁頂項順預頓領頭題額顏願類顧顯風飛飯飲餓館馬駕騎驅驗驚魚鮮鳥鳴麗麥麼黃點齊齒龍龜"
)
_ONLY_SIMPLIFIED = (
    "业东丝为丽举么义乐习书买亚产亲仅从们优会传伤储儿兰关兴写军农决净减则刚创删动区医华协单卖"
    "卫厌县双发变号吗听员响园国图圣场坏块声处备复头奖妈学宝实宾对导尔尝层属岁师带帮庄库应开"
    "异张弹归当录径态总惊惯愿战执扩护报担择换据数断无旧时显术机杀权条来构标树样档梦检楼欢气汉"
    "汤没洁测济涨温湾湿满灯点烟烦烧热爱状独猫献玛环现电画疗疯监盖盘瞩码础确礼祸离种积称稳穷竞"
    "笔筑简类粮紧红约级纪纯纷纸线组细织终绍经结给络绝统继绩绪续维绿缓编缘缩网罗罚职联胆脑脚脸"
    "艺节苏苹药获营虫虽补装见观规视觉触计订认讨让训议记讲许论设访证评识诉词译试诗诚话该详语"
    "误说请诸读课谁调谈谎谢贝负贡财责败货质贪贫购贵费贺资赏赖赛赞赢车转轮轻载较辆输边达过运还"
    "这进远连迟适选递邻释针钟钢钱铁银链错键镇镜长门闭问间闻阅队阳阴阶际险随难雾静页顶项顺顾顿"
    "预领题颜额风飞饭饮饿馆马驱驾验骑鱼鲜鸟鸡鸣麦黄齐齿龙龟"
)
TRADITIONAL = re.compile(f"[{_ONLY_TRADITIONAL}]")
SIMPLIFIED = re.compile(f"[{_ONLY_SIMPLIFIED}]")


def traditional_share(text: str) -> float | None:
    """Share of Traditional among the characters of one script only, 0 to 1; None: no such ones."""
    traditional = len(TRADITIONAL.findall(text))
    simplified = len(SIMPLIFIED.findall(text))
    telling = traditional + simplified
    return traditional / telling if telling else None
